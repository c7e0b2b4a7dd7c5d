"""Streamlit components, for what Plotly cannot do: each a Python file, a script and a style."""
