"""What a person has chosen, what is computed for it and kept, and the widgets of all pages."""
