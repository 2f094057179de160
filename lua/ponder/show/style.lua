--- What an output supports: columns, colours, Unicode line drawing.

local terminal = require "ponder.core.terminal"

local style = {}

local MIN_COLUMNS, DEFAULT_COLUMNS, DEFAULT_ROWS = 20, 80, 24

---@class ponder.show.Style
---@field is_terminal boolean
---@field live boolean whether lines can be redrawn
---@field color boolean
---@field unicode boolean
local Style = {}
Style.__index = Style

local CODES = { bold = "1", dim = "2", red = "31", green = "32", yellow = "33" }

---A text in a colour, if the output has colours.
---@param color? "bold"|"dim"|"red"|"green"|"yellow"
function Style:paint(s, color)
    if not self.color or not color or s == "" then
        return s
    end
    return ("\27[%sm%s\27[0m"):format(CODES[color], s)
end

---The present size; a terminal may be resized at any time.
---@return integer columns
---@return integer rows
function Style:size()
    local columns, rows = self.measure()
    return math.max(columns or DEFAULT_COLUMNS, MIN_COLUMNS), rows or DEFAULT_ROWS
end

---The columns of a line; elsewhere than on a terminal it may have any length.
function Style:width()
    return self.is_terminal and self:size() - 1 or math.maxinteger
end

---The mark at the end of a truncated text.
function Style:mark()
    return self.unicode and "…" or "..."
end

-- Like the C library, looks at the first of the three that is set.
local function is_unicode(env)
    for _, name in ipairs { "LC_ALL", "LC_CTYPE", "LANG" } do
        local value = env(name)
        if value and value ~= "" then
            return value:upper():find("UTF%-?8") ~= nil
        end
    end
    return false
end

---The style of standard error (2) or output (1). `NO_COLOR` (no-color.org) and `TERM=dumb` turn
---colours off, the latter redrawing too.
---@param parts? {env: (fun(name: string): string?)?, is_terminal: boolean?, measure:
---(fun(): integer?, integer?)?} for specs
---@return ponder.show.Style
function style.of(fd, parts)
    parts = parts or {}
    local env, is_terminal = parts.env or os.getenv, parts.is_terminal
    if is_terminal == nil then
        is_terminal = terminal.is_terminal(fd)
    end
    local able = is_terminal and env("TERM") ~= "dumb"
    return setmetatable({
        is_terminal = is_terminal, live = able,
        color = able and (env("NO_COLOR") or "") == "",
        unicode = is_unicode(env),
        measure = parts.measure or function() return terminal.size(fd) end,
    }, Style)
end

return style
