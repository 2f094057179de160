-- `ponder export`: each format is read back by its tool or by its grammar.

local json = require "ponder.json"
local sample_log = require "sample_log"
local shell = require "shell"
local text = require "ponder.show.text"

local dir, path

local function ponder(...)
    return shell.ponder { "export", ... }
end

local function export(...)
    return shell.printed { "export", ... }
end

-- A text without differences in line breaks and spaces.
local function without_spaces(s)
    return (s:gsub("\u{200B}", ""):gsub("%s+", ""))
end

setup(function()
    dir = shell.directory()
    path = dir.path .. "/run.db"
    sample_log.write(path)
end)
teardown(function() dir:__close() end)

describe("ponder export", function()
    it("reports errors in its flags", function()
        for message, words in pairs {
            ["expected --format dot|html|json|mermaid|otlp"] = { path },
            ["--search has no effect with --format json"] = { "--format", "json", "--search", "1",
                path },
            ["--content has no effect with --format dot"] = { "--format", "dot", "--content",
                path },
            ["--full has no effect with --format json"] = { "--format", "json", "--full", path },
            [("expected one run (got %s)"):format(path)] = { "--format", "dot", path, path },
            ["--otlp sends traces; it cannot be combined with --output"] = {
                "--otlp", "http://x", "--output", "f", path },
        } do
            local r = ponder(table.unpack(words))
            assert.same({ 2, "", "ponder export: " .. message .. "\n" }, { r.status, r.out, r.err })
        end
    end)

    it("writes to a file, and says when it cannot", function()
        local file = dir.path .. "/out.json"
        assert.equal("", export("--format", "json", "--output", file, path))
        assert.equal(export("--format", "json", path), dir:read("out.json"))
        assert.equal(dir:read("out.json"), export("--format", "json", "--output", "-", path))
        local r = ponder("--format", "json", "--output", "/dev/full", path)
        assert.same({ 1, "ponder export: /dev/full: No space left on device\n" },
            { r.status, r.err })
        r = ponder("--format", "dot", "--output", dir.path .. "/no/x", path)
        assert.same({ 2, ("ponder export: %s/no/x: No such file or directory\n"):format(
            dir.path) }, { r.status, r.err })
        for _, to in ipairs { {}, { "--output", file }, { "--output", dir.path .. "/new.dot" } } do
            r = ponder("--format", "dot", "--search", "9", path, table.unpack(to))
            assert.same({ 2, "", ("ponder export: %s: there is no search 9\n"):format(path) },
                { r.status, r.out, r.err })
        end
        assert.equal(export("--format", "json", path), dir:read("out.json"))
        assert.is_nil(io.open(dir.path .. "/new.dot"))
        assert.equal(2, ponder("--format", "json", dir.path .. "/none.db").status)
        assert.equal(1, shell.ponder({ "export", "--format", "json", path },
            { to = "/dev/full" }).status)
    end)
end)

describe("ponder export --format json", function()
    it("holds every row", function()
        local all = assert(json.decode(export("--format", "json", path)))
        local counts = {}
        for _, name in ipairs { "sessions", "files", "searches", "calls", "attempts", "effects",
            "events" } do
            counts[#counts + 1] = #all[name]
        end
        assert.same({ 1, 2, 3, 40, 3, 2, 16 }, counts)
        assert.same({ "completed", 42, 37 }, { all.state, all.run.seed, all.totals.ok })
        assert.same({ 30, 0 }, { #all.searches[1].nodes, #all.searches[1].edges })
        assert.same({ 6, 3 }, { #all.searches[3].nodes, #all.searches[3].edges })
        local last = all.calls[40]
        assert.equal(sample_log.HOSTILE, last.request.messages[2].content)
        assert.equal(sample_log.HOSTILE, last.reply.samples[1].text)
        assert.equal("lookup", all.calls[33].reply.samples[1].tool_calls[1].name)
    end)

    it("is an object even for an empty run", function()
        local file = dir.path .. "/empty.db"
        sample_log.write(file, function(db)
            for _, name in ipairs { "sessions", "files", "searches", "nodes", "edges", "calls",
                "attempts", "effects", "events" } do
                db:execute("DELETE FROM " .. name)
            end
        end)
        local all = assert(json.decode(export("--format", "json", file)))
        assert.same({}, all.calls)
        assert.same({}, all.totals.models)
    end)
end)

-- Texts that Graphviz and Mermaid would interpret.
local HARD = { "style:", "classDef x:", "end", "subgraph", "1. one", "2) two", "- li", "* a *",
    "_b_", "~~~", "```", "%%{init: {}}%%", "%% c", "$$x^2$$", "$$$", "&amp;", "&#35;", "#quot;",
    "#35;", "<br/>", "<img src=x onerror=alert(1)>", "\\n", "\\N", "\\", "\"", "'", "[x]", "(y)",
    "{z}", "|", "-->", "==>", "click a", "http://x.y", "a@{ shape: x }", ":::best", "# h", "> q",
    "=", "+ a", "o--o", "中文", "fa:fa-home", "fas:fa-x", "L1\nL2", "**b**", "\1\27[31m\127",
    "caf\u{e9}", "", " ", ";", "::", "a\tb", "//", ("w"):rep(120), ("long words "):rep(60) }

local function write_hard(name)
    local file = dir.path .. "/" .. name
    sample_log.write(file, function(db, w)
        db:execute "DELETE FROM nodes"
        db:execute "DELETE FROM edges"
        db:execute "DELETE FROM searches WHERE id > 1"
        for i, hard in ipairs(HARD) do
            w:node(1, i, i > 1 and i // 2 or nil, i, 0.5, hard)
        end
        w:insert("edges", { search = 1, source = 2, target = 5, kind = 'x"]; y' })
    end)
    return file
end

-- Whether a label is the id, the score and the text, or its beginning.
local function assert_drawn(i, drawn)
    drawn = without_spaces(drawn)
    local whole = without_spaces(("#%d0.50"):format(i) .. text.safe(HARD[i]))
    if drawn ~= whole then
        assert.equal("...", drawn:sub(-3), HARD[i])
        assert.equal(whole:sub(1, #drawn - 3), drawn:sub(1, -4), HARD[i])
        assert.is_true(#drawn > 150)
    end
end

describe("ponder export --format dot", function()
    -- What Graphviz makes of it: {name = object}, number of edges.
    local function draw(file, ...)
        dir:write("run.dot", export("--format", "dot", file, ...))
        local r = shell.run(("dot -Tjson %s/run.dot >$OUT 2>$ERR"):format(dir.path))
        assert.same({ 0, "" }, { r.status, r.err })
        local drawing = assert(json.decode(r.out))
        local objects = {}
        for _, object in ipairs(drawing.objects) do
            objects[object.name] = object
        end
        return objects, drawing.edges
    end

    local function drawn_text(object)
        local parts = {}
        for _, step in ipairs(object._ldraw_) do
            parts[#parts + 1] = step.text
        end
        return table.concat(parts)
    end

    it("is accepted by Graphviz", function()
        local objects, edges = draw(path)
        assert.equal(42, #edges)
        assert.equal("search 1: beam, 4 4 6 8", drawn_text(objects.cluster_1))
        assert.equal("2", objects.s1_29.peripheries)
        assert.equal("0.333 0.25 1.0", objects.s1_29.fillcolor)
        assert.equal("2.5", objects.s1_17.penwidth)
        assert.is_nil(objects.s1_18.penwidth)
        assert.matches("dashed", objects.s1_24.style)
        local kinds = {}
        for _, edge in ipairs(edges) do
            kinds[#kinds + 1] = edge.label ~= "" and edge.label or nil
        end
        table.sort(kinds)
        assert.same({ "aggregates", "aggregates", "connects" }, kinds)
        local _, some = draw(path, "--search", "2")
        assert.equal(5, #some)
    end)

    it("shows every text unchanged", function()
        local objects = draw(write_hard("dot.db"))
        for i in ipairs(HARD) do
            assert_drawn(i, drawn_text(objects["s1_" .. i]))
        end
    end)
end)

describe("ponder export --format mermaid", function()
    -- Each line is one of these: nothing in a label can end it.
    local LINES = { "^flowchart TD$", "^  classDef %a+ [%w:,#-]+$", '^  subgraph s%d+%["[^"]*"%]$',
        '^    s%d+_%d+%["[^"]*"%]$', '^    s%d+_%d+%["[^"]*"%]:::%a+$',
        '^    s%d+_%d+%(%["[^"]*"%]%):::%a+$', '^    s%d+_%d+ ([=-])%1> s%d+_%d+$',
        '^    s%d+_%d+ %-%. "[^"]*" %.%-[>]? s%d+_%d+$', "^  end$" }

    local function check(out)
        for _, line in ipairs(shell.lines(out)) do
            local fits = false
            for _, pattern in ipairs(LINES) do
                fits = fits or line:find(pattern) ~= nil
            end
            assert.is_true(fits, line)
        end
        return out
    end

    it("is a flow chart", function()
        local out = check(export("--format", "mermaid", path))
        for _, part in ipairs { '\n    s1_29(["#35;29  1.00<br/>step 29 of 17 (left: 29 4)"])'
            .. ':::best\n', "\n    s1_17 ==> s1_29\n", "\n    s1_17 --> s1_30\n",
            '\n    s3_2 -. "connects" .- s3_4\n', '\n    s3_3 -. "aggregates" .-> s3_5\n' } do
            assert.truthy(out:find(part, 1, true), part .. out)
        end
        assert.is_nil(check(export("--format", "mermaid", "--search", "2", path)):find("s1_"))
    end)

    it("shows every text unchanged", function()
        local out = check(export("--format", "mermaid", write_hard("mermaid.db")))
        local count = 0
        for i, label in out:gmatch '\n    s1_(%d+)%["([^"]*)"%]' do
            -- No character that Mermaid, Markdown or HTML would act on is left but our line breaks.
            local plain = label:gsub("<br/>", " ")
            assert.is_nil(plain:gsub("#%d+;", ""):find '[#"<>&`\\|%[%]{}*_~%%;$]', label)
            assert.is_nil(plain:find("style", 1, true) or plain:find("classDef", 1, true))
            local drawn = plain:gsub("#(%d+);", function(n) return string.char(n) end)
            -- Nor after numeric entities are decoded.
            assert.is_nil(drawn:find "%$%$" or drawn:find "\\n" or drawn:find "fa[bklrs]?:fa%-")
            assert_drawn(tonumber(i), drawn)
            count = count + 1
        end
        assert.equal(#HARD, count)
    end)
end)
