---@meta ponder.core.yaml
error("a description for editors, not a module")

--- Reads YAML, with libyaml.
---@class ponder.core.yaml
local yaml = {}

---The value of a YAML text, as `json.decode` makes it: lists and maps are marked, null is
---`json.null`. Without quotes null, true, false and decimal numbers are such (YAML 1.2: yes and
---no are texts); the keys of maps are texts; `<<` merges a map. The bounds: 8 MiB, 200,000 values
---(those of aliases count each time), a depth of 64. Application tags, duplicate keys, a second
---document and an alias within its own anchor are errors.
---@param text string UTF-8
---@return any value
---@return table<table, table> lines of each list and map: its own as 0, and that of each key of a
---  map; or what is wrong, with its line
function yaml.decode(text) end

return yaml
