// The figures of a page that stands by itself. Of maps, a click on a head, or the lists, enlarge
// another.
const parts = JSON.parse(document.getElementById("data").textContent);
const config = { displaylogo: false, modeBarButtons: [["toImage"]], responsive: true };

function floats(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

for (const [kind, part] of Object.entries(parts)) {
  const section = document.getElementById(kind);
  if (part.figure) {
    Plotly.newPlot(section.querySelector(".drawing"), part.figure.data, part.figure.layout, config);
    continue;
  }
  const [mosaic, large] = [section.querySelector(".mosaic"), section.querySelector(".large")];
  const [, heads, rows, columns] = part.shape;
  const cells = floats(part.maps);
  const choice = Object.fromEntries(
    [...section.querySelectorAll("select")].map((list) => [list.dataset.of, list]),
  );

  const show = () => {
    const [layer, head] = [Number(choice.layer.value), Number(choice.head.value)];
    const start = (layer * heads + head) * rows * columns;
    const z = Array.from({ length: rows }, (_, row) =>
      cells.subarray(start + row * columns, start + (row + 1) * columns),
    );
    Plotly.restyle(large, { z: [z] }, [0]);
    const [height, width] = part.mosaic_shape;
    const [x, y] = [head * (width + 1) - 0.5, layer * (height + 1) - 0.5];
    const frame = { x0: x, x1: x + width, y0: y, y1: y + height };
    Plotly.relayout(
      mosaic,
      Object.fromEntries(Object.entries(frame).map(([name, at]) => [`shapes[0].${name}`, at])),
    );
  };

  Plotly.newPlot(mosaic, part.mosaic.data, part.mosaic.layout, config);
  Plotly.newPlot(large, part.large.data, part.large.layout, config);
  mosaic.on("plotly_click", ({ points }) => {
    const clicked = points.find((point) => typeof point.customdata === "string");
    if (!clicked) return;
    [choice.layer.value, choice.head.value] = clicked.customdata.split(",");
    show();
  });
  Object.values(choice).forEach((list) => list.addEventListener("change", show));
}
