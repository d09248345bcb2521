"""A campaign as files that stand alone: HTML, CSV and Markdown. What pages and files write alike is here too."""
