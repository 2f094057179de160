-- The page of a run (`ponder export --format html`) in a real browser, one for all tests here.

local browser = require "browser"
local builtin = require "ponder.base.builtin"
local page_data = require "ponder.show.export.page_data"
local reader = require "ponder.run.log.reader"
local sample_log = require "sample_log"
local shell = require "shell"
local store = require "ponder.core.store"

local dir = shell.directory()
local b

-- Writes a log and its page; gives the page's path.
local function page(name, write, opts)
    local path = ("%s/%s"):format(dir.path, name)
    write(path .. ".db")
    local log <close> = assert(reader.open(path .. ".db"))
    local file <close> = assert(io.open(path .. ".html", "wb"))
    page_data.write(log, file, opts or {})
    return path .. ".html"
end

local made = {}

-- The page of one of the logs below, made once.
local function page_of(name)
    local writers = {
        sample = sample_log.write,
        many = function(path) sample_log.fill(path, 5000) end,
        searchless = function(path)
            sample_log.write(path, function(db)
                for _, name_of in ipairs { "searches", "nodes", "edges" } do
                    assert(db:execute("DELETE FROM " .. name_of))
                end
                assert(db:execute "UPDATE calls SET search = NULL, node = NULL")
            end)
        end,
        empty = function(path)
            sample_log.write(path, function(db)
                for _, name_of in ipairs { "searches", "nodes", "edges", "calls", "attempts",
                    "effects", "events" } do
                    assert(db:execute("DELETE FROM " .. name_of))
                end
            end)
        end,
    }
    made[name] = made[name] or page(name, writers[name])
    return made[name]
end

-- The texts of the visible rows.
local function rows(list)
    return b:run([[return [...document.querySelectorAll(`#${arguments[0]} .row .words`)]
        .map((words) => words.textContent)]], list)
end

local function title()
    return b:text "#details-title"
end

-- How many shapes the paths that a selector finds have, as drawn.
local function shapes(selector)
    return b:run([[return [...document.querySelectorAll(arguments[0])].reduce((sum, path) =>
        sum + (path.getAttribute('d').match(/M/g) ?? []).length, 0)]], selector)
end

local function how_many(selector)
    return b:run("return document.querySelectorAll(arguments[0]).length", selector)
end

-- What a drawing shows, as text.
local function picture(id)
    return b:run([[const { innerHTML } = document.getElementById(arguments[0]);
        return innerHTML.replace(/"pointing"/g, '')]], id)
end

describe("the page of a run", function()
    setup(function() b = browser.start { width = 1280, height = 800 } end)
    teardown(function()
        b:close()
        getmetatable(dir).__close(dir)
    end)
    before_each(function()
        b:resize(1280, 800)
        b:prefer "light"
    end)

    it("loads without errors, whatever the run holds", function()
        for _, name in ipairs { "sample", "many", "searchless", "empty" } do
            b:open(page_of(name))
            assert.equal(1, b:run "return performance.getEntriesByName('drawn').length", name)
            assert.same({}, b:errors(), name)
        end
        assert.equal("This run called no model.", b:text "#time-empty")
    end)

    it("is written by the command too, which has its parts built in", function()
        page_of "sample"
        local r = shell.ponder { "export", dir.path .. "/sample.db", "--format", "html",
            "--output", dir.path .. "/command.html" }
        assert.same({ status = 0, out = "", err = "" }, r)
        assert.is_true(dir:read "sample.html" == dir:read "command.html")
    end)

    it("shows the number of nodes and calls, and their cost", function()
        b:open(page_of "sample")
        assert.equal("Tree30", b:text "#tab-outline")
        assert.equal("Calls40", b:text "#tab-calls")
        local totals = b:text "#totals"
        for _, words in ipairs { "calls40", "tokens4,740", "$0.00268+?", "12.5 s",
            "models4" } do
            assert.is_truthy(totals:find(words, 1, true), words .. " in " .. totals)
        end
        assert.equal("completed", b:text "#status")
    end)

    it("has a tree for screen readers", function()
        b:open(page_of "sample")
        assert.equal(30, b:run "return document.querySelectorAll('[role=treeitem]').length")
        assert.same({ "4 4 6 8", "1", "1", "true" }, b:run [[
            const item = document.querySelector('[role=tree] [role=treeitem]');
            return [item.querySelector('.words').textContent,
                ...['level', 'setsize', 'expanded'].map((n) => item.getAttribute(`aria-${n}`))]; ]])
        assert.equal("Drawing of the search tree. The same tree is in the list beside it.",
            b:run "return document.getElementById('tree').getAttribute('aria-label')")
    end)

    it("draws the best path, and the calls in flight", function()
        b:open(page_of "sample")
        assert.same({ 5, 4 }, { how_many "#tree .card.best", shapes "#tree .edge.best" })
        assert.equal(30, how_many "#tree .card")
        assert.same({ 2, 3 }, { shapes "#time .failed", shapes "#time .retried" })
    end)

    it("opens a node: its text, score, cost, and the calls with prompt and reply", function()
        b:open(page_of "sample")
        b:click "#node-14"
        assert.equal("step 17 of 7 (left: 17 3)", rows("outline")[15])
        assert.equal("Node 17", title())
        local details = b:text "#details"
        for _, words in ipairs { "Score0.9666", "Expand node 17", "You are terse.", "Answer 19",
            "Cost$0.000", "on the best path" } do
            assert.is_truthy(details:find(words, 1, true), words .. " in " .. details)
        end
        b:click ".call:not([open]) > summary"
        b:wait "return document.getElementById('details').textContent.includes('Answer 20')"
    end)

    it("opens what is clicked in the drawing and in the timeline", function()
        b:open(page_of "sample")
        b:press("]", "]")
        local at = b:run [[
            const box = document.getElementById('tree').getBoundingClientRect();
            return [Math.round(box.left + 70), Math.round(box.top + box.height / 2)]; ]]
        b:click_at(at[1], at[2])
        assert.equal("Root n1", title())
        at = b:run [[
            const box = document.getElementById('time').getBoundingClientRect();
            return [Math.round(box.left + 18), Math.round(box.top + 32)]; ]]
        b:click_at(at[1], at[2])
        assert.equal("Call 1 expand", title())
        b:click "#close"
        assert.equal("This run", title())
    end)

    it("filters by text, and steps through the matches", function()
        b:open(page_of "sample")
        b:press "/"
        b:type "OF 17 ("
        b:wait "return document.getElementById('matches').textContent.startsWith('2 ')"
        assert.same({ "4 4 6 8", "step 2 of 1 (left: 2 1)", "step 7 of 2 (left: 7 2)",
            "step 17 of 7 (left: 17 3)", "step 29 of 17 (left: 29 4)",
            "step 30 of 17 (left: 30 4)" }, rows "outline")
        assert.equal("of 17 (", b:text "#outline mark")
        b:press "Enter"
        assert.equal("Node 29", title())
        b:focus "#outline"
        b:press "n"
        assert.equal("Node 30", title())
        b:press "n"
        assert.equal("Node 29", title())
        b:press "N"
        assert.equal("Node 30", title())
        b:press "Escape"
        assert.equal(30, #rows "outline")
    end)

    it("finds calls by prompt and reply", function()
        b:open(page_of "sample")
        b:press "/"
        b:type "answer 12"
        b:wait "return document.getElementById('matches').textContent === '0 · 1 call'"
        b:click "#tab-calls"
        assert.equal(1, #rows "calls")
        b:focus "#calls"
        b:press "n"
        assert.equal("Call 12 evaluate", title())
    end)

    it("can be used with the keyboard alone", function()
        b:open(page_of "sample")
        b:focus "#outline"
        b:press "ArrowDown"
        assert.equal("Root 1", title())
        b:press("ArrowDown", "ArrowDown", "ArrowUp")
        assert.equal("Node 2", title())
        assert.equal("node-1", b:run
            "return document.getElementById('outline').getAttribute('aria-activedescendant')")
        b:press "Space"
        assert.equal("false", b:run
            "return document.getElementById('node-1').getAttribute('aria-expanded')")
        assert.is_true(#rows "outline" < 15)
        b:press("ArrowRight", "ArrowRight")
        assert.equal("Node 5", title())
        b:press("ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowLeft") -- folds, then to the parent
        assert.equal("Root 1", title())
        b:press("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "Enter")
        assert.equal("Node 5", title())
        assert.equal("details-title", b:run "return document.activeElement.id")
        b:press "b"
        assert.equal("Node 29", title())
        b:press "?"
        assert.is_true(b:run "return document.getElementById('help').open")
        b:press "Escape"
        assert.is_nil(b:run "return document.getElementById('help').open || null")
        b:press "Escape"
        assert.equal("This run", title())
        b:press "f"
        assert.is_true(#rows "outline" < 20)
        b:press("f", "]")
        assert.equal("Tree6", b:text "#tab-outline")
        assert.same({}, b:errors())
    end)

    -- Events of a pointer at places of a canvas: { type, x, y, more }.
    local GESTURE = [[
        const [id, events] = arguments, canvas = document.getElementById(id);
        const box = canvas.getBoundingClientRect();
        canvas.setPointerCapture = () => {}; // these pointers are not the browser's
        for (const [type, x, y, more] of events) {
            const make = type === 'wheel' ? WheelEvent : PointerEvent;
            canvas.dispatchEvent(new make(type, { clientX: box.left + x, clientY: box.top + y,
                bubbles: true, cancelable: true, pointerId: 1, button: 0, ...more }));
        } ]]

    it("can be dragged, zoomed with the wheel and pinched", function()
        b:open(page_of "sample")
        for _, canvas in ipairs { "tree", "time" } do
            b:focus("#" .. canvas)
            local before = picture(canvas)
            for _, gesture in ipairs {
                { { "wheel", 150, 60, { deltaY = -900 } } },
                { { "pointerdown", 150, 60 }, { "pointerdown", 160, 60, { pointerId = 2 } },
                    { "pointermove", 400, 60, { pointerId = 2 } }, { "pointerup", 150, 60 },
                    { "pointerup", 400, 60, { pointerId = 2 } } },
            } do
                b:run(GESTURE, canvas, gesture)
                local zoomed = picture(canvas)
                assert.is_true(before ~= zoomed)
                b:run(GESTURE, canvas, { { "pointerdown", 300, 60 }, { "pointermove", 40, 90 },
                    { "pointerup", 40, 90 } })
                assert.is_true(zoomed ~= picture(canvas))
                b:press "0"
                assert.is_true(before == picture(canvas))
            end
        end
        assert.equal("This run", title()) -- a drag is not a click
    end)

    it("describes what the pointer is on, until it moves", function()
        b:open(page_of "sample")
        local function point()
            b:run(GESTURE, "time", { { "pointermove", 18, 32 } })
            assert.matches("^expand #1 · gpt%-4o%-mini\n337 ms · %$0%.0000",
                b:run "return document.getElementById('time').title")
        end
        for _, gesture in ipairs { { "pointerleave", 18, 32 },
            { "wheel", 18, 32, { deltaY = -900 } } } do
            point()
            b:run(GESTURE, "time", { gesture })
            assert.equal("", b:run "return document.getElementById('time').title")
        end
        b:focus "#time"
        b:press "0"
        point()
        b:press "+"
        assert.equal("", b:run "return document.getElementById('time').title")
    end)

    it("shows each search of a run, and the links of graphs", function()
        b:open(page_of "sample")
        b:press("b", "]", "]")
        assert.same({ "How do cities reduce heat?", "Plant trees",
            "Trees along streams, light roofs", "Trees, light roofs and water together",
            "Paint roofs white", "Open up streams" }, rows "outline")
        b:click "#node-4"
        assert.same({ 1, 2 }, { shapes "#tree .extra.near", shapes "#tree .extra:not(.near)" })
        local details = b:text "#details"
        assert.is_truthy(details:find("Links to0.80Trees along streams, light roofsaggregates", 1,
            true), details)
    end)

    it("is useful without a search", function()
        b:open(page_of "searchless")
        assert.equal("Calls40", b:text "#tab-calls")
        assert.is_true(#rows "calls" > 5)
        assert.equal(2, shapes "#time .failed")
        b:click "#call-1"
        assert.equal("Call 2 evaluate", title())
    end)

    it("shows every way that a call may end", function()
        b:open(page_of "sample")
        b:run [[document.getElementById('tab-calls').click();
            document.getElementById('calls').scrollTop = 1e6; ]]
        local ends = b:wait [[const ends = [...document.querySelectorAll('#calls .bad .side')];
            return ends.length > 0 && ends.map((side) => side.textContent)]]
        assert.same({ "RATE_LIMITED", "cancelled", "no answer" }, ends)
        b:press "/"
        b:type "again?"
        b:wait "return document.getElementById('matches').textContent.endsWith(' 1 call')"
        b:press "Enter"
        local details = b:text "#details"
        for _, words in ipairs { "Try 1: HTTP 429, RATE_LIMITED, slow down", "Try 2:" } do
            assert.is_truthy(details:find(words, 1, true), details)
        end
    end)

    it("never treats models' text as markup or code", function()
        b:open(page_of "sample")
        b:press "/"
        b:type "bold"
        b:wait "return document.getElementById('matches').textContent.startsWith('1 ')"
        b:press "Enter"
        assert.equal("Node 5", title())
        local shown = b:text "#details pre"
        assert.equal((sample_log.HOSTILE:gsub("\27", "\u{241B}")), shown)
        assert.same({ 0, 2 }, b:run [[return [document.querySelectorAll('b').length,
            document.scripts.length]; ]])
        assert.same({}, b:errors())
    end)

    it("has libraries as they were published", function()
        local vendor = shell.root .. "/lua/ponder/show/page/vendor/"
        local readme <close> = assert(io.open(vendor .. "README.md", "rb"))
        local n = 0
        for sum, name in readme:read("a"):gmatch "(%x+)  (%S+%.%l+)\n" do
            local text = builtin.file("ponder/show/page/vendor/" .. name)
            assert.equal(sum, store.sha256(text), name)
            n = n + 1
        end
        assert.equal(5, n)
    end)

    it("shows the conversation of a chat, not its JSON", function()
        local log = dir.path .. "/chat.db"
        assert.equal(0, shell.ponder({ "chat", "--log", log, "--model", "script:" .. shell.root
            .. "/scripts/models/arithmetic.lua", "Use 4 4 6 8 to make 24" }).status)
        b:open(page("chat", function() end))
        assert.matches("^ConversationuserUse 4 4 6 8 to make 24Copyassistant", b:text "#details")
        assert.is_nil(b:text("#details"):find '{"')
    end)

    it("loads nothing from outside", function()
        b:open(page_of "sample")
        assert.equal(0, b:run "return performance.getEntriesByType('resource').length")
        assert.equal("img-src", b:run_async [[
            const done = arguments[0];
            document.addEventListener('securitypolicyviolation',
                (event) => done(event.effectiveDirective), { once: true });
            const image = Object.assign(new Image(), { src: 'http://127.0.0.1:9/x.png' });
            document.body.append(image); ]])
        assert.equal("script-src-elem", b:run_async [[
            const done = arguments[0];
            document.addEventListener('securitypolicyviolation',
                (event) => done(event.effectiveDirective), { once: true });
            document.body.append(Object.assign(document.createElement('script'),
                { textContent: 'window.broken = true' })); ]])
        assert.is_nil(b:run "return window.broken")
        b:errors()
    end)

    -- Contrast of texts and their backgrounds by WCAG 2.
    local CONTRAST = [[
        const light = (colour) => {
            const [r, g, b] = colour.match(/[\d.]+/g).map((c) => {
                c /= 255;
                return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const behind = (element) => {
            for (let e = element; e; e = e.parentElement) {
                const colour = getComputedStyle(e).backgroundColor;
                if (!/, 0\)$/.test(colour)) return colour;
            }
            return 'rgb(255, 255, 255)';
        };
        const poor = [];
        for (const element of document.querySelectorAll('body *')) {
            const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
            if (!own || !element.checkVisibility()) continue;
            if (element.matches('script, style, .unseen')) continue;
            const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
            const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            const name = element.className || element.tagName;
            if (ratio < 4.5) poor.push(`${name} ${ratio.toFixed(2)}`);
        }
        return poor; ]]

    it("is readable in light and dark, by the system's setting or the user's", function()
        local ground = {}
        for _, scheme in ipairs { "light", "dark" } do
            b:prefer(scheme)
            b:open(page_of "sample")
            ground[scheme] = b:run "return getComputedStyle(document.body).backgroundColor"
            assert.same({}, b:run(CONTRAST), scheme)
            b:press "b"
            assert.same({}, b:run(CONTRAST), scheme)
        end
        assert.are_not.equal(ground.light, ground.dark)
        b:press "t"
        assert.equal(ground.light, b:run "return getComputedStyle(document.body).backgroundColor")
        b:press "t"
        assert.equal(ground.dark, b:run "return getComputedStyle(document.body).backgroundColor")
    end)

    it("fits a window of 400 pixels", function()
        b:resize(400, 700)
        for _, name in ipairs { "sample", "searchless" } do
            b:open(page_of(name))
            for _, view in ipairs { "lists", "time", "details" } do
                b:click(("#tabs [data-view=%s]"):format(view))
                assert.same({ 400, "visible" }, b:run([[
                    const pane = document.querySelector(`.pane.${arguments[0]}`);
                    return [document.documentElement.scrollWidth,
                        getComputedStyle(pane).visibility]; ]], view))
            end
        end
        b:click "#tabs [data-view=lists]"
        b:click "#call-2"
        b:focus "#calls"
        b:press "Enter"
        assert.equal("details", b:run "return document.getElementById('main').dataset.view")
        assert.same({}, b:errors())
    end)

    it("has elements only for the visible ones of 5,000 nodes", function()
        b:open(page_of "many")
        assert.equal("Tree5,000", b:text "#tab-outline")
        local count = #rows "outline"
        assert.is_true(count > 10 and count < 100)
        b:focus "#outline"
        b:press "End"
        assert.equal("Node 3280", title()) -- the last of the last branch
        b:press "/"
        b:type "thought 4999"
        b:wait "return document.getElementById('matches').textContent.startsWith('1 ')"
        b:press "Enter"
        assert.equal("Node 4999", title())
        assert.same({}, b:errors())
    end)

    it("draws a chain of 3,000 nodes, one below the other", function()
        b:open(page("chain", function(path)
            sample_log.write(path, function(_, w)
                w:insert("searches", { id = 9, kind = "dfs", started_at = w.at })
                for i = 1, 3000 do
                    w:node(9, i, i > 1 and i - 1 or nil, i - 1, 0.5, "step " .. i)
                end
            end)
        end))
        b:press("]", "]", "]")
        assert.equal("Tree3,000", b:text "#tab-outline")
        b:focus "#outline"
        b:press("ArrowDown", "ArrowRight", "ArrowRight")
        assert.equal("Node 3", title())
        assert.same({}, b:errors())
    end)

    it("survives nodes below themselves or a missing parent, and infinite scores", function()
        b:open(page("odd", function(path)
            sample_log.write(path, function(_, w)
                w:insert("searches", { id = 9, kind = "tot", started_at = w.at })
                w:node(9, "n1", "n2", 0, 0.5, "a circle")
                w:node(9, "n2", "n1", 1, 0.5, "of two")
                w:node(9, "n3", "n3", 1, 0.5, "itself")
                w:node(9, "n10", "n99", 1, nil, "an orphan")
                w:node(9, "n11", "n10", 2, math.huge, "beyond measure")
                w:node(9, "n12", "n10", 2, -math.huge, "hopeless")
            end)
        end))
        b:press("]", "]", "]")
        assert.equal("Tree6", b:text "#tab-outline")
        assert.equal(6, #rows "outline")
        assert.same({ "0.50", "0.50", "0.50", "∞", "−∞" }, b:run [[
            return [...document.querySelectorAll('#outline .score')].map((s) => s.textContent); ]])
        assert.same({}, b:errors())
    end)

    it("leaves out the hours between the sessions of a run", function()
        b:open(page("resumed", function(path)
            sample_log.write(path, function(db, w)
                w:insert("sessions", { id = 2, kind = "resume", started_at = w.at + 7200 })
                w.at = w.at + 7200
                w:call { session = 2, question = "And now?" }
                assert(db:execute("UPDATE runs SET ended_at = ?", w.at + 2))
                assert(db:execute "DELETE FROM calls WHERE status IS NULL")
            end)
        end))
        local seconds = tonumber(b:text("#totals"):match "time([%d.]+) s")
        assert.is_true(seconds ~= nil and seconds < 15, b:text "#totals")
    end)

    it("omits what is too large, says so, and includes it if asked to", function()
        local function write(path)
            sample_log.write(path, function(_, w)
                w:call { question = ("long "):rep(30000) .. "\u{e9}nd", text = "short" }
            end)
        end
        b:open(page("long", write))
        assert.equal("Omitted to keep this page small: 1 end of a long text. ponder export "
            .. "--format html --full includes everything.", b:text "#notice")
        os.remove(dir.path .. "/long.db")
        b:open(page("long", write, { full = true }))
        assert.is_true(b:run "return document.getElementById('notice') === null")
        b:press "/"
        b:type "\u{e9}nd"
        b:wait "return document.getElementById('matches').textContent === '0 · 1 call'"
    end)

    it("shows where the text of a card differs from that of its parent", function()
        b:open(page("alike", function(path)
            sample_log.write(path, function(db)
                assert(db:execute [[UPDATE nodes SET text = 'We have the numbers 4 4 6 8; now '
                    || text WHERE search = 2 AND parent IS NOT NULL]])
            end)
        end))
        b:press "]"
        local alike = "We have the numbers 4 4 6 8; now "
        assert.same({ "Use 4 4 6 8 to make 24", alike .. "8 / 4 = 2 (left: 2 4 6)",
            alike .. "6 - 4 = 2 (left: 2 4 8)", "…8 - 4 = 4 (left: 2 4)",
            "…8 + 4 = 12 (left: 2 12)", alike .. "4 + 8 = 12 (left: 4 6 12)" }, rows "outline")
        b:click "#node-2"
        assert.is_truthy(b:text("#details pre"):find("We have the numbers", 1, true))
    end)

    it("keeps the text of a card, and the number of a folded node, inside it", function()
        b:open(page_of "sample")
        b:press "]"
        b:focus "#outline"
        b:press("ArrowDown", "ArrowDown", "ArrowDown", "Space") -- n3 has children
        assert.equal("+2", b:text "#tree .card.folded .handle")
        assert.same({}, b:run [[return [...document.querySelectorAll('.card p, .folded .handle')]
            .filter((part) => {
                const [a, b] = [part, part.parentElement].map((e) => e.getBoundingClientRect());
                return a.top < b.top || a.bottom > b.bottom || a.right > b.right;
            }).map((part) => part.textContent)]])
    end)

    it("cuts off nothing at any width", function()
        for _, width in ipairs { 390, 768, 1280, 1920 } do
            b:resize(width, 800)
            b:open(page_of "sample")
            b:press("]", "]")
            for _, view in ipairs { "drawing", "lists", "time", "details" } do
                b:run("document.querySelector(`#tabs [data-view=${arguments[0]}]`).click()", view)
                assert.same({}, b:cut(), ("%d %s"):format(width, view))
            end
        end
    end)

    it("has the reply before the prompt, with a button that copies it", function()
        b:open(page_of "sample")
        b:run "location.hash = '#call=7'"
        b:wait "return document.getElementById('details-title').textContent.startsWith('Call 7')"
        local details = b:text "#details"
        assert.is_true(details:find("Reply", 1, true) < details:find("Prompt", 1, true))
        assert.equal("Copy: Reply",
            b:run "return document.querySelector('#details .copy').getAttribute('aria-label')")
        b:focus "#details .copy"
        b:press "Enter"
        b:wait "return /Copied|Cannot/.test(document.querySelector('#details .copy').textContent)"
    end)

    it("filters calls by status, model and purpose, and shows which failed", function()
        b:open(page_of "sample")
        b:click "#tab-calls"
        local function filter(by, value)
            b:fill(("#filter [aria-label=%s]"):format(by), value)
        end
        local whole = shapes "#time .failed"
        filter("status", "error")
        assert.equal("Calls1", b:text "#tab-calls")
        assert.is_truthy(rows("calls")[1]:find("call", 1, true))
        filter("status", "")
        filter("purpose", "evaluate")
        assert.equal("Calls12", b:text "#tab-calls")
        assert.is_true(shapes "#time .failed" < whole) -- those that failed are others
        filter("model", "claude-haiku-4-5")
        assert.equal("Calls10", b:text "#tab-calls")
        filter("purpose", "")
        filter("model", "")
        assert.equal("Calls40", b:text "#tab-calls")
    end)

    it("shows waiting for a slot, flight, and the duration of calls", function()
        b:open(page("queued", function(path)
            sample_log.write(path, function(db)
                assert(db:execute [[UPDATE calls SET queued_at = asked_at + 0.01,
                    sent_at = asked_at + 0.15 WHERE id % 4 = 0 AND status = 'ok']])
            end)
        end))
        assert.is_truthy(b:text("#keys"):find("waited for a slot 9", 1, true), b:text "#keys")
        b:run "location.hash = '#call=4'"
        b:wait "return document.getElementById('details').textContent.includes('Waited140 ms')"
    end)

    it("names a state that is a table by the fields that its parent has not", function()
        b:open(page("tables", function(path)
            sample_log.write(path, function(_, w)
                w:insert("searches", { id = 9, kind = "bfs", started_at = w.at })
                w:node(9, 1, nil, 0, 0.5, '{"goal":24,"left":"4 4 6 8"}')
                w:node(9, 2, 1, 1, 0.5, '{"goal":24,"left":"4 2","step":"8 - 6 = 2, then"}')
            end)
        end))
        b:press("]", "]", "]")
        assert.same({ "goal: 24, left: 4 4 6 8", "left: 4 2, step: 8 - 6 = 2, then" },
            rows "outline")
    end)

    it("shows how often nodes were visited, and their values", function()
        local place <close> = shell.directory { ["uct.lua"] = ([[
            local m = require("ponder.model").open("script:%s/scripts/models/arithmetic.lua")
            require("ponder.search").run { initial_state = 1, search = "uct", k = 2,
                max_iterations = 6, is_terminal = function() return false end,
                evaluate = function(n) return 1 / n end, expand = function(n)
                    m:chat { messages = { { role = "user", content = "Use 4 4 6 8 to make 24" } } }
                    return { n * 2, n * 3 }
                end }]]):format(shell.root) }
        local log = dir.path .. "/uct.db"
        assert.equal(0, shell.ponder({ "run", "--log", log, place.path .. "/uct.lua" }).status)
        b:open(page("uct", function() end))
        b:run "location.hash = '#node=0'"
        b:wait "return document.getElementById('details-title').textContent === 'Root 0'"
        assert.matches("Status%d+ visits, value 0%.", b:text "#details")
        assert.same({}, b:errors())
    end)
end)
