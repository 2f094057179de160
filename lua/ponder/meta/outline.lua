---@meta ponder.core.outline
error("a description for editors, not a module")

---Splits a model's reply into marked sections and their items (see src/core/outline.h). For parsers
---such as `ponder.parse.critique`, which define the markers.
local outline = {}

---Takes linear time. A section keeps its first 10000 items, or the last 8 values, each truncated to
---64 bytes.
---@param text string
---@param words table<string, integer> a word in lower case (at most 15 letters) -> the section that
---it opens, or 0 for a word that may precede a marker
---@param trailing table<string, any> words that may follow a marker, before its separator
---@param roles ("skip"|"list"|"value"|"text")[] of each section, at most 16: ignored; a list of
---items; one value after the marker or on the next line; all text up to the next marker in capitals
---@return string[][] sections the contents of each section, unchanged
function outline.read(text, words, trailing, roles) end

return outline
