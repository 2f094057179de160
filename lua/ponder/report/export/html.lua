--- A run as one page that needs nothing else: `ponder export FILE --format html`.
---
--- The page's parts are in lua/ponder/report/page; here they are put together with the data. What a
--- run holds cannot become markup or code: the data is JSON in an element that is no script for a
--- browser, without any `<`, and the page's policy allows its own script and style alone, by their
--- hashes, and no connection.

local builtin = require "ponder.builtin"
local json = require "ponder.json"
local page_data = require "ponder.report.export.page_data"
local store = require "ponder.core.store"

local html = {}

-- In the order in which they are joined; page.js starts what the others define.
local SCRIPTS = { "state", "text", "layout", "canvas", "camera", "tree", "time", "lists", "details",
    "search", "moves", "keys", "page" }

local POLICY = "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; "
    .. "img-src data:; base-uri 'none'; form-action 'none'"

local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function part(name)
    return builtin.file("ponder/report/page/" .. name)
end

-- The hash as policies write it: the bytes of SHA-256 in base 64.
local function hash(text)
    local bytes = store.sha256(text):gsub("%x%x", function(pair)
        return string.char(tonumber(pair, 16))
    end)
    local coded = bytes:gsub("..?.?", function(group)
        local a, b, c = group:byte(1, 3)
        local bits = a << 16 | (b or 0) << 8 | (c or 0)
        local digits = ""
        for i = 0, #group do
            local digit = (bits >> (18 - 6 * i) & 63) + 1
            digits = digits .. DIGITS:sub(digit, digit)
        end
        return digits .. ("="):rep(3 - #group)
    end)
    return coded
end

-- One script: its parts share their names with each other, and with nothing else.
local function join_scripts()
    local parts = { "(() => {\n'use strict';\n" }
    for _, name in ipairs(SCRIPTS) do
        parts[#parts + 1] = part(name .. ".js")
    end
    parts[#parts + 1] = "})();\n"
    return table.concat(parts, "\n")
end

---Writes the page of a run.
---@param log ponder.log.Reader
---@param out {write: fun(self, ...): any, string?} a file
---@param opts? {full: boolean?} `full`: leave nothing out, however large the page becomes
---@return boolean? ok
---@return string? message
function html.write(log, out, opts)
    local style, script = part "page.css", join_scripts()
    local data = json.encode(page_data.read(log, opts and opts.full)):gsub("<", "\\u003c")
    local fill = { policy = POLICY:format(hash(script), hash(style)), style = style,
        script = script, data = data }
    local pieces, rest = {}, 1
    local template = part "page.html"
    for from, name, to in template:gmatch("(){{(%l+)}}()") do
        pieces[#pieces + 1] = template:sub(rest, from - 1)
        pieces[#pieces + 1] = fill[name]
        rest = to
    end
    pieces[#pieces + 1] = template:sub(rest)
    local ok, message = out:write(table.concat(pieces))
    return ok and true, message
end

return html
