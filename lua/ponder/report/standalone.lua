--- Builds a self-contained page: its style, its script and its data in one file.
---
--- Data cannot become markup or code: it is JSON, without any `<`, in an element that browsers do
--- not run. The page's content security policy allows only its own script and style, by their
--- hashes, and no connection, or only to its own server.

local base64 = require "ponder.base64"
local builtin = require "ponder.builtin"
local json = require "ponder.json"
local store = require "ponder.core.store"

local standalone = {}

local POLICY = "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; "
    .. "img-src data:; base-uri 'none'; form-action 'none'"

-- The hash for a content security policy: SHA-256 in base64.
local function hash(text)
    return base64.encode((store.sha256(text):gsub("%x%x", function(pair)
        return string.char(tonumber(pair, 16))
    end)))
end

---A part of a page, from lua/ponder/report/page.
---@param name string
---@return string
function standalone.part(name)
    return builtin.file("ponder/report/page/" .. name)
end

---Joins the scripts of a page into one function scope.
---@param names string[] without ".js"
---@return string
function standalone.join(names)
    local parts = { "(() => {\n'use strict';\n" }
    for _, name in ipairs(names) do
        parts[#parts + 1] = standalone.part(name .. ".js")
    end
    parts[#parts + 1] = "})();\n"
    return table.concat(parts, "\n")
end

---Assembles a page.
---@param template string a comment and a title, then the body, with {{script}} and {{data}}
---@param style string
---@param script string
---@param data any JSON values
---@param live boolean? the page is served, and may connect to its server
---@return string
function standalone.assemble(template, style, script, data, live)
    local policy = POLICY:format(hash(script), hash(style))
    local about, title, body = template:match "^(<!%-%-.-%-%->)\n(<title>[^\n]*)\n(.*)$"
    local fill = { policy = live and policy .. "; connect-src 'self'" or policy, style = style,
        script = script, data = json.encode(data):gsub("<", "\\u003c"), about = about,
        title = title }
    template = standalone.part "head.html" .. body
    local pieces, rest = {}, 1
    for from, name, to in template:gmatch("(){{(%l+)}}()") do
        pieces[#pieces + 1] = template:sub(rest, from - 1)
        pieces[#pieces + 1] = fill[name]
        rest = to
    end
    pieces[#pieces + 1] = template:sub(rest)
    return table.concat(pieces)
end

-- The parts of each page, in order, after those of every page.
local PAGES = {
    runs = { title = "Runs", "runs.js" },
    compare = { title = "Two runs", "vendor/d3-hierarchy.min.js", "data.js", "drawing.js",
        "treeview.js", "compare.js" },
    evaluation = { title = "Evaluation", "vendor/uPlot.min.css", "vendor/uPlot.iife.min.js",
        "evaluation.js" },
}

---A page: one file with its data.
---@param name string "runs", "run", "compare", "evaluation"
---@param data any JSON values
---@param live boolean? the page is served, and may connect to its server
---@return string
function standalone.page(name, data, live)
    local style, libraries, own = { standalone.part "app.css" }, {}, {}
    local function add(part)
        local text = standalone.part(part)
        local list = part:find "%.css$" and style or part:find "^vendor/" and libraries or own
        list[#list + 1] = text
    end
    for _, part in ipairs { "vendor/preact.min.js", "vendor/htm.umd.js", "words.js", "kit.js" } do
        add(part)
    end
    for _, part in ipairs(PAGES[name]) do
        add(part)
    end
    local fill = { title = PAGES[name].title, style = table.concat(style, "\n"),
        script = ("%s\n(() => {\n'use strict';\n%s\n})();\n"):format(
            table.concat(libraries, "\n"), table.concat(own, "\n")),
        data = json.encode(data):gsub("<", "\\u003c") }
    local policy = POLICY:format(hash(fill.script), hash(fill.style))
    fill.policy = live and policy .. "; connect-src 'self'" or policy
    return (standalone.part "shell.html":gsub("{{(%l+)}}", fill))
end

return standalone
