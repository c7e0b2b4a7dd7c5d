"""Streamlit components for what Plotly cannot do: each has a Python file, a script and a style."""
