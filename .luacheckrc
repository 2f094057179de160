std = "lua54"
max_line_length = 100
exclude_files = { "build" }
files["lua/ponder/cli/run.lua"] = { globals = { "arg" } } -- it sets a script's arguments
files["spec"] = { std = "+busted" }
files["spec/fixtures"] = { max_line_length = false } -- what servers sent, as they sent it
files["lua/ponder/meta"] = { ignore = { "211", "212", "221", "241" } } -- descriptions for editors: bodies are empty
