---@meta ponder.core.regex
error("a description for editors, not a module")

---POSIX extended regular expressions of the C library, on bytes: `(a|b)+`, `[[:digit:]]`, `^`, `$`,
---`{2,3}`; not Perl's `\d` or `(?:`.
local regex = {}

---@class ponder.Regex
local Regex = {}

---Whether the expression matches anywhere in a text.
---@param text string
---@return boolean
function Regex:matches(text) end

---@param pattern string
---@param ignore_case? boolean
---@return ponder.Regex?
---@return string? message what is wrong with the pattern
function regex.new(pattern, ignore_case) end

return regex
