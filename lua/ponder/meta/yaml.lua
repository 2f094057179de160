---@meta ponder.core.yaml
error("a description for editors, not a module")

--- Reads the events of YAML, with libyaml; ponder.base.yaml makes values of them.
---@class ponder.core.yaml
local yaml = {}

---The events of a YAML text, five items each: its kind ("document", "map", "list", "end", "alias";
---"plain" for a text without quotes or tag, else "text"), the anchor or false, the tag or false, a
---text's content, and its line. The bounds: 8 MiB, 500,000 events, a depth of 64.
---@param text string UTF-8
---@return (string|integer|false)[]? events
---@return string? message what is wrong, with its line
function yaml.events(text) end

return yaml
