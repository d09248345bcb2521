"""What an engine really gives, asked with a protocol's own tokens before a number of it is believed.

``run.probe`` asks; ``answers`` holds what is asked for and what was found; every other module is a group of questions.
"""
