-- The page that `ponder view` serves, in a real browser: the list of runs, a run in progress,
-- links to nodes and calls, with the keyboard alone.

local browser = require "browser"
local sample_log = require "sample_log"
local shell = require "shell"
local store = require "ponder.core.store"

local dir, b, viewer

local function sample(name, change)
    return sample_log.write(("%s/%s"):format(dir.path, name), change)
end

-- Serves logs; gives the page's URL, with a query and what follows it.
local function serve(...)
    if viewer then
        b:open "about:blank" -- its stream ends
        viewer:stop()
    end
    viewer = shell.start { "view", "--no-open", ... }
    local base = viewer.line:match "^[^&]+"
    return function(query)
        return base .. (query or "")
    end
end

local function rows(list)
    return b:run([[return [...document.querySelectorAll(`#${arguments[0]} .row`)]
        .map((row) => row.textContent)]], list)
end

local function is_focused(id)
    return b:run("return document.activeElement.id") == id
end

local function title()
    return b:text "#details-title"
end

describe("the served page", function()
    setup(function()
        dir = shell.directory()
        b = browser.start { width = 1280, height = 800 }
    end)
    teardown(function()
        if viewer then
            viewer:stop()
        end
        b:close()
        dir:__close()
    end)

    it("lists runs, filters and sorts them, and opens one, with the keyboard alone", function()
        local first = sample "first.db"
        local second = sample("second.db", function(db)
            assert(db:execute("UPDATE runs SET status = 'failed', started_at = started_at + 5, "
                .. "name = ?", sample_log.HOSTILE))
        end)
        local url = serve(first, second)
        b:open(url())
        assert.same({}, b:errors())
        b:wait "return document.getElementById('count').textContent === '2 runs'"
        assert.is_truthy(rows("runs")[1]:find("<b>bold</b>", 1, true))
        assert.equal(0, b:run "return document.querySelectorAll('b').length")
        b:press "/"
        assert.is_true(is_focused "query")
        b:type "POLICY.lua"
        b:wait "return document.getElementById('count').textContent === '2 runs'"
        b:type " nowhere"
        b:wait "return document.getElementById('count').textContent === '0 of 2 runs'"
        b:fill("#query", "")
        b:press "Enter"
        assert.is_true(is_focused "runs")
        b:fill("#status", "failed")
        assert.equal("1 of 2 runs", b:text "#count")
        b:fill("#status", "")
        b:press("ArrowDown", "ArrowDown")
        assert.is_truthy(rows("runs")[2]:find("first.db#1", 1, true))
        b:press "Enter"
        b:wait "return document.getElementById('home')?.hidden === false"
        assert.equal("Tree30", b:text "#tab-outline")
        assert.same({}, b:errors())
    end)

    it("has rows only for the visible ones of 10,000 runs", function()
        local path = sample("many.db", function(db)
            assert(db:execute [[WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n
                WHERE i < 10000) INSERT INTO runs (id, uid, parent, name, labels, command,
                arguments, seed, options, versions, started_at, ended_at, status, answer)
                SELECT i, i, 1, 'policy', '{"request":"r' || i || '"}', 'serve', '[]', 1, '{}',
                '{}', 1760000000.0 + i, 1760000001.0 + i, 'completed', '{"answer":"forty"}'
                FROM n]])
            assert(db:execute [[INSERT INTO calls (run, id, session, identity, occurrence, provider,
                model, sample, samples, request, asked_at, status, cost) SELECT id, 1, 1, 'i', 1,
                'p', 'm', 1, 1, '{}', started_at, 'ok', id / 1000.0 FROM runs WHERE id > 1]])
        end)
        b:open(serve(path)())
        b:wait "return document.getElementById('count').textContent === '10,000 runs'"
        assert.is_true(#rows "runs" < 100)
        assert.is_truthy(rows("runs")[1]:find("many.db#1", 1, true)) -- the outermost run
        assert.matches("policy request=r10000%s+forty", rows("runs")[2])
        b:focus "#runs"
        b:press "End"
        assert.is_truthy(b:text(".row.active"):find("many.db#2", 1, true))
        b:press "/"
        b:type "r777"
        b:wait "return document.getElementById('count').textContent === '11 of 10,000 runs'"
        b:run "document.querySelector('.head .cost button').click()"
        assert.is_truthy(rows("runs")[1]:find("r7779", 1, true))
        assert.same({}, b:errors())
    end)

    it("leads from an answer in an evaluation to its run", function()
        dir:write("e.lua", ([[return { data = { { id = "x", question = "Use 4 4 6 8 to make 24" } },
            policies = { cot = require("ponder.strategy.cot").new { model = "script:%s" } },
            score = function() return true end }]])
            :format(shell.root .. "/scripts/models/arithmetic.lua"))
        local done = dir:ponder { "eval", "--log", "e.db", "e.lua" }
        assert.equal(0, done.status, done.err)
        b:open(serve(dir.path .. "/e.db")())
        b:wait "return document.querySelectorAll('#runs .row').length === 2"
        b:focus "#runs"
        b:press("ArrowDown", "Enter") -- the outermost run is the evaluation
        b:wait "return document.querySelector('#list .cell') !== null"
        b:click "#list .cell"
        assert.matches("Open its run", b:text "#details")
        b:focus "#list"
        b:press "Enter"
        b:wait "return document.getElementById('tab-calls')?.textContent === 'Calls1'"
        assert.same({}, b:errors())
    end)

    it("names a request to a server by its policy and question", function()
        local path = sample("asked.db", function(db)
            assert(db:execute [[INSERT INTO runs (id, uid, parent, name, labels, input, command,
                arguments, seed, options, versions, started_at, ended_at, status) VALUES (2, 'b', 1,
                'echo', '{"choice":1}', '{"prompt":"hi <b>"}', 'serve', '[]', 1, '{}', '{}',
                1760000050.0, 1760000051.0, 'completed')]])
        end)
        local url = serve(path)
        b:open(url())
        b:wait "return document.querySelectorAll('#runs .row').length === 2"
        assert.matches("echo: hi <b>", rows("runs")[2], 1, true)
        for _, width in ipairs { 390, 1280, 1920 } do
            b:resize(width, 800)
            assert.same({}, b:cut(), width)
        end
        b:open(url("&run=" .. path .. "%232"))
        assert.equal("hi <b>", b:text "#title")
        assert.matches("Question.*hi <b>.*Name.*echo.*Labels.*choice=1", b:text "#details")
    end)

    it("links to nodes and calls", function()
        local path = sample "links.db"
        local url = serve(path)
        local run = "&run=" .. path .. "%231"
        b:open(url(run .. "#search=2&node=n3"))
        assert.equal("Node n3", title())
        b:open(url(run .. "#node=17"))
        assert.equal("Node 17", title())
        b:open(url(run .. "#call=7"))
        assert.is_truthy(title():find("Call 7", 1, true))
        b:run "location.hash = '#search=3&node=n2'"
        b:wait "return document.getElementById('details-title').textContent !== 'Call 7 expand'"
        b:press "Escape"
        b:wait "return location.hash === ''"
        b:focus "#calls"
        b:press "ArrowDown"
        b:wait "return location.hash.startsWith('#call=')"
    end)

    it("grows with the run, and keeps the selection and the view", function()
        local path = sample("grows.db", function(db)
            assert(db:execute "UPDATE runs SET status = NULL, ended_at = NULL")
            assert(db:execute "DELETE FROM calls WHERE status IS NULL")
            assert(db:execute
                "UPDATE searches SET ended_at = NULL, status = NULL WHERE id IN (1, 2)")
        end)
        local writer <close> = assert(store.open(path, { mode = "write" }))
        local url = serve(path)
        b:open(url("&run=" .. path .. "%231#search=2&node=n3"))
        assert.equal("running", b:text "#status")
        b:run "document.querySelector('#details details.call').open = false"
        b:focus "#tree"
        b:press("+", "+")
        local function colours()
            return b:run([[return Object.fromEntries([...document.querySelectorAll('#keys li')].map(
                (li) => [li.textContent.split(' ')[0], li.firstChild.style.background]))]])
        end
        local before = colours()
        assert(writer:begin())
        for id = 91, 140 do
            assert(writer:execute([[INSERT INTO calls (id, session, identity, occurrence, provider,
                model, sample, samples, request, asked_at, status, purpose) VALUES (?, 1, 'more',
                ?, 'openai', 'm', 1, 1, '{}', 1760000020.0, 'ok', 'refine')]], id, id))
        end
        assert(writer:execute [[INSERT INTO nodes (search, id, parent, depth, score, text) VALUES
            (2, 'n7', 'n6', 3, 0.5, 'one more')]])
        assert(writer:execute [[INSERT INTO calls (id, session, identity, occurrence, provider,
            model, sample, samples, request, asked_at, search, node, purpose) VALUES (90, 1, 'new',
            1, 'openai', 'm', 1, 1, '{}', 1760000020.0, 2, 'n6', 'generate')]])
        assert(writer:commit())
        b:wait "return document.getElementById('tab-outline').textContent === 'Tree7'"
        assert.same(before, colours())
        assert.is_truthy(rows("outline")[6]:find("one more", 1, true))
        assert.equal("Node n3", title())
        assert.equal(0, b:run
            "return document.querySelectorAll('#details details.call[open]').length")
        assert(writer:begin())
        assert(writer:execute "UPDATE nodes SET score = 0.75 WHERE search = 2 AND id = 'n3'")
        assert(writer:execute "UPDATE runs SET status = 'completed', ended_at = 1760000030.0")
        assert(writer:commit())
        b:wait "return document.getElementById('status').textContent === 'completed'"
        b:wait "return document.getElementById('details').textContent.includes('Score0.75')"
        assert.same({}, b:errors())
    end)

    it("says when its server is gone, and continues when it is back", function()
        local path = sample "gone.db"
        local url = serve(path)
        b:open(url("&run=" .. path .. "%231"))
        viewer:stop()
        b:wait "return document.getElementById('lost') !== null"
        assert.equal("Tree30", b:text "#tab-outline")
        b:errors()
    end)

    it("may connect only to its own server", function()
        local path = sample "alone.db"
        b:open(serve(path)("&run=" .. path .. "%231"))
        assert.equal("connect-src", b:run_async [[
            const done = arguments[0];
            document.addEventListener('securitypolicyviolation',
                (event) => done(event.effectiveDirective), { once: true });
            fetch('http://127.0.0.1:9/').catch(() => {}); ]])
        b:errors()
    end)

    it("shows two runs side by side, with their differences, with the keyboard alone", function()
        local first = sample "a.db"
        local second = sample("b.db", function(db)
            assert(db:execute "UPDATE nodes SET score = 0.55 WHERE search = 1 AND id = 3")
            assert(db:execute("UPDATE nodes SET text = ? WHERE search = 1 AND id = 30",
                sample_log.HOSTILE))
        end)
        local url = serve(first, second)
        b:open(url())
        b:wait "return document.querySelectorAll('.row').length === 2"
        b:focus "#runs"
        b:press("ArrowDown", "Space", "ArrowDown", "Space")
        b:focus "#compare"
        b:press "Enter"
        b:wait "return document.getElementById('verdict') !== null"
        for _, width in ipairs { 390, 1280, 1920 } do
            b:resize(width, 800)
            assert.same({}, b:cut(), width)
        end
        assert.equal("different outcomes", b:text "#verdict")
        assert.equal("1 only in A, 1 only in B, 1 scored differently; the best path is the same",
            b:text "#differ")
        local mark = "−"
        local list = rows "nodes"
        assert.equal(3, #list)
        assert.is_truthy(list[1]:find(mark, 1, true) and list[2]:find("+", 1, true)
            and list[3]:find("~", 1, true))
        b:focus "#nodes"
        b:press("ArrowDown", "ArrowDown", "ArrowDown")
        local details = b:text "#details"
        assert.is_truthy(details:find("Run Anode 3, score", 1, true)
            and details:find("Run Bnode 3, score 0.55", 1, true), details)
        b:press "ArrowUp"
        assert.is_truthy(b:text("#details"):find("<b>bold</b>", 1, true))
        b:press "Escape"
        assert.matches("Calls: 40 the same", b:text "#details")
        b:click "#tree-a .card:nth-child(2)" -- it is in both
        assert.is_truthy(b:text("#details"):find("Run Anode 2, score .*Run Bnode 2, score "))
        assert.same({}, b:errors())
        assert.equal(0, b:run "return document.querySelectorAll('b').length")
    end)
end)
