---@meta ponder.core.outline
error("a description for editors, not a module")

---Splits a model's reply into marked sections and their items (src/core/outline.h says how). For
---parsers such as `ponder.parse.critique`, which bring the words.
local outline = {}

---Time is linear in the length of the text. A section keeps its first 10000 items, or the last 8
---values, each cut to 64 bytes.
---@param text string
---@param words table<string, integer> a word in lower case (15 letters at most) -> the section that
---it opens, or 0 for a word that may only stand before a marker
---@param trailing table<string, any> words that may stand between a marker and its separator
---@param roles ("skip"|"list"|"value"|"text")[] of each section, 16 at most: of no interest; a list
---of items; one value behind the marker or on the next line; all text up to the next marker in
---capitals
---@return string[][] sections for each section what it holds, as it stands in the text
function outline.read(text, words, trailing, roles) end

return outline
