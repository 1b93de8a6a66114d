"""Sphinx's configuration of the site.

`deploy.website.build` prepares its folder of sources.
"""

project = "Headwater"
html_title = "Headwater"
extensions = ["myst_parser"]
root_doc = "index"
html_theme = "furo"
html_theme_options: dict[str, object] = {"footer_icons": []}
html_show_sphinx = False
html_copy_source = False
html_show_copyright = False
html_use_index = False
myst_heading_anchors = 6
myst_links_external_new_tab = False
myst_disable_syntax = ["html_block", "html_inline", "math_inline"]
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
highlight_language = "none"
