--- Builds a self-contained page: its style, its script and its data in one file.
---
--- The parts are in lua/ponder/show/page: kit.js is what all pages are made of, one script is of
--- each page, and libraries are in vendor. Data cannot become markup or code: it is JSON, without
--- any `<`, in an element that browsers do not run. The page's content security policy allows only
--- its own script and style, by their hashes, and no connection, or only to its own server.

local base64 = require "ponder.base.base64"
local builtin = require "ponder.base.builtin"
local json = require "ponder.json"
local store = require "ponder.core.store"

local standalone = {}

local POLICY = "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; "
    .. "img-src data:; base-uri 'none'; form-action 'none'"

local EVERY = { "vendor/preact.min.js", "vendor/htm.umd.js", "app.css", "words.js", "kit.js" }
-- The further parts of each page, in order, and its title until its script sets one.
local PAGES = {
    run = { title = "Run", "vendor/d3-hierarchy.min.js", "data.js", "drawing.js", "treeview.js",
        "timeline.js", "inspect.js", "run.js" },
    runs = { title = "Runs", "runs.js" },
    compare = { title = "Two runs", "vendor/d3-hierarchy.min.js", "data.js", "drawing.js",
        "treeview.js", "compare.js" },
    evaluation = { title = "Evaluation", "vendor/uPlot.min.css", "vendor/uPlot.iife.min.js",
        "evaluation.js" },
}

-- The hash for a content security policy: SHA-256 in base64.
local function hash(text)
    return base64.encode((store.sha256(text):gsub("%x%x", function(pair)
        return string.char(tonumber(pair, 16))
    end)))
end

---A page: one file with its data.
---@param name string "runs", "run", "compare" or "evaluation"
---@param data any JSON values
---@param live boolean? the page is served, and may connect to its server
function standalone.page(name, data, live)
    local style, libraries, own = {}, {}, {}
    for _, parts in ipairs { EVERY, PAGES[name] } do
        for _, part in ipairs(parts) do
            local list = part:find "%.css$" and style or part:find "^vendor/" and libraries or own
            list[#list + 1] = builtin.file("ponder/show/page/" .. part)
        end
    end
    local fill = { title = PAGES[name].title, style = table.concat(style, "\n"),
        script = ("%s\n(() => {\n'use strict';\n%s\n})();\n"):format(
            table.concat(libraries, "\n"), table.concat(own, "\n")),
        data = json.encode(data):gsub("<", "\\u003c") }
    local policy = POLICY:format(hash(fill.script), hash(fill.style))
    fill.policy = live and policy .. "; connect-src 'self'" or policy
    return (builtin.file "ponder/show/page/shell.html":gsub("{{(%l+)}}", fill))
end

return standalone
