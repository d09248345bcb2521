"""A file a page. Each is a script that Streamlit runs from top to bottom; nothing imports them."""
