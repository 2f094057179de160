-- The page of an evaluation (`ponder eval --html`) in a real browser.

local browser = require "browser"
local curves = require "ponder.show.eval.curves"
local page = require "ponder.show.eval.page"
local shell = require "shell"
local stats = require "ponder.stats"
local style = require "ponder.show.style"
local summary = require "ponder.judge.eval.summary"
local tables = require "ponder.show.eval.table"

local dir = shell.directory()
local b

-- A result of n items for each of three policies, with scores drawn at random.
local function result_of(n)
    local names, records = { "io", "tot <b>", "search" }, {}
    for p, name in ipairs(names) do
        local draws = stats.splitmix64_below(p, 100, n)
        for i = 1, n do
            local value = draws[i] < 20 + 20 * p and 1 or 0
            local outcome = value == 1 and "right" or i % 17 == 0 and "failed" or "wrong"
            records[#records + 1] = { policy = name, id = "item" .. i, epoch = 1,
                outcome = outcome, score = outcome ~= "failed" and value or nil,
                answer = "answer " .. i .. "</script><script>document.title = 'x'</script>",
                target = i, question = "question " .. i, samples = p, calls = p, tokens = 10 * p,
                cost = 0.001 * p * (i % 7 + 1), seconds = 0.1 * p, critical_seconds = 0.05,
                message = outcome == "failed" and "it broke" or nil, code = outcome == "failed"
                    and "ERROR" or nil,
                points = { { samples = 1, tokens = 5, cost = 0.001, seconds = 0.05, score = 0 } } }
        end
    end
    return summary.new({ name = "demo", policies = names, baseline = "io", items = n, epochs = 1,
        seed = 0, scorers = { "exact" } }, records)
end

local function open(name, n)
    dir:write(name, page.write(result_of(n)))
    b:open(dir.path .. "/" .. name)
end

local function rows()
    return b:run "return [...document.querySelectorAll('.row')].map((row) => row.textContent)"
end

local function count()
    return b:text "#count"
end

describe("the page of an evaluation", function()
    setup(function()
        b = browser.start()
        open("demo.html", 60)
    end)

    teardown(function()
        b:close()
        dir:__close()
    end)

    it("shows the table and remarks, and text as text", function()
        assert.equal(3, b:run "return document.querySelectorAll('#policies tbody tr').length")
        assert.same({ "search", "tot <b>", "io" }, b:run [[return [
            ...document.querySelectorAll('#policies tbody td:first-child'),
            ].map((cell) => cell.textContent)]]) -- by accuracy
        assert.equal("demo - ponder eval", b:run "return document.title")
        assert.truthy(b:text("#notes"):find("failed, which count as wrong", 1, true))
        for _, width in ipairs { 390, 1920, 1280 } do
            b:resize(width, 900)
            assert.same({}, b:cut(), width)
        end
        assert.same({}, b:errors())
    end)

    it("shows items and runs, variances, correlations and adjusted p", function()
        local result = result_of(60)
        local policy = result.policies[2]
        b:click "summary"
        b:wait "return document.getElementById('variances') !== null"
        local cells = b:run [[return [...document.querySelectorAll(
            '#variances tbody tr:nth-child(2) td')].map((cell) => cell.textContent)]]
        assert.same({ "tot <b>", "60", "60", "0", "-", ("%.4f"):format(policy.variance.between),
            ("%.4f"):format(policy.difference.correlation) }, table.move(cells, 1, 7, 1, {}))
        assert.same({ tables.p_value(policy.p_holm), "-" }, { cells[9], cells[10] })
    end)

    it("draws a stepped curve for each policy, and names their values", function()
        b:run [[window.legs = [];
            const { lineTo } = Path2D.prototype;
            Path2D.prototype.lineTo = function (x, y) {
              window.legs.push([this, x, y]);
              return lineTo.call(this, x, y);
            };]]
        b:click "#axes button:nth-child(2)"
        assert.equal("true", b:run [[return document.querySelector('#axes button:nth-child(2)')
            .getAttribute('aria-pressed')]])
        b:wait "return window.legs.length > 0"
        assert.is_true(b:run [[return window.legs.every(([path, x, y], i) => i === 0
            || window.legs[i - 1][0] !== path
            || x === window.legs[i - 1][1] || y === window.legs[i - 1][2]) ]])
        local legend = b:text "#plot"
        for _, policy in ipairs(result_of(60).policies) do
            local value = ("%.1f %%"):format(policy.accuracy.value * 100)
            assert.is_truthy(legend:find(policy.name, 1, true), legend)
            assert.is_truthy(legend:find(value, 1, true), value .. " in " .. legend)
        end
    end)

    local function choose(id, value)
        b:run([[const field = document.getElementById(arguments[0]); field.value = arguments[1];
            field.dispatchEvent(new Event('input', { bubbles: true }))]], id, value)
    end

    it("filters by outcome, policy and text", function()
        local result = result_of(60)
        local right = {}
        for _, record in ipairs(result.records) do
            right[record.policy .. record.id] = record.score == 1
        end
        local fixed, broken = 0, 0
        for i = 1, 60 do
            local was, is = right["ioitem" .. i], right["searchitem" .. i]
            fixed = fixed + (is and not was and 1 or 0)
            broken = broken + (was and not is and 1 or 0)
        end
        assert.equal("60 of 60 items", count())
        choose("policy", "search")
        choose("outcome", "fixed")
        assert.equal(fixed .. " of 60 items", count())
        choose("outcome", "broken")
        assert.equal(broken .. " of 60 items", count())
        choose("outcome", "differ")
        assert.equal(fixed + broken .. " of 60 items", count())
        choose("outcome", "failed")
        local failed = tonumber(count():match "^%d+")
        assert.is_true(failed > 0 and failed < 10)
        choose("outcome", "")
        choose("query", "nowhere")
        assert.equal("0 of 60 items", count())
        choose("query", "answer 33<")
        assert.equal("1 of 60 items", count())
        choose("query", "")
        choose("policy", "")
    end)

    it("marks amounts that are estimated or unknown, as the table in the terminal does", function()
        local result = result_of(3)
        for i, record in ipairs(result.records) do
            record.estimated_tokens = record.policy == "io" and 7 or nil
            record.cost = record.policy ~= "search" and i ~= 4 and record.cost or nil
        end
        result = summary.new(result.meta, result.records)
        local lines = table.concat(tables.lines(result, style.of(1)), "\n")
        assert.matches("\nio +3 .* 1.0 +~10 +$0.0030 ", lines)
        assert.matches("\ntot <b> +3 .* 2.0 +20 +$0.0070%+%? ", lines)
        assert.matches("\nsearch +3 .* 3.0 +30 +%? +%? ", lines)
        dir:write("marks.html", page.write(result))
        b:open(dir.path .. "/marks.html")
        local _, cells = tables.cells(result)
        for i, row in ipairs(cells) do
            for k, cell in ipairs(row) do
                row[k] = type(cell) == "table" and cell[1] or cell
            end
            assert.same(row, b:run([[return [...document.querySelectorAll('#policies tbody tr')
                .item(arguments[0]).children].map((cell) => cell.textContent)]], i - 1))
        end
        b:click ".row .cell[data-policy=search]"
        assert.matches("cost %?", b:text "#details")
        open("demo.html", 60)
    end)

    it("has a matrix of the answers, right or wrong, of each policy", function()
        local cells = b:run [[return [...document.querySelectorAll('.row .cell')].map((cell) =>
            [cell.dataset.policy, cell.className, cell.textContent])]]
        assert.is_true(#cells > 30 and #cells % 3 == 0)
        local outcomes = {}
        for _, record in ipairs(result_of(60).records) do
            outcomes[record.policy] = outcomes[record.policy] or {}
            table.insert(outcomes[record.policy], record.outcome)
        end
        for i, cell in ipairs(cells) do
            local right = outcomes[cell[1]][(i - 1) // 3 + 1] == "right"
            assert.matches(right and "good" or "bad", cell[2])
            assert.matches(right and "^✓ answer" or "^✗ ", cell[3])
        end
    end)

    it("shows an item when it is selected, also by key", function()
        b:click ".row"
        assert.truthy(b:text("#details"):find("question 1", 1, true))
        b:run "document.getElementById('list').focus()"
        b:press "ArrowDown"
        assert.truthy(b:text("#details"):find("question 2", 1, true))
        local policy = b:text "#details h3"
        b:press "ArrowRight"
        assert.not_equal(policy, b:text "#details h3")
    end)

    it("draws 10,000 items with elements only for the visible ones", function()
        open("many.html", 3334)
        b:wait "return document.querySelector('.row') !== null"
        assert.equal("3,334 of 3,334 items", count())
        assert.is_true(#rows() < 60)
        b:run "document.getElementById('list').scrollTop = 50000"
        b:wait "return parseFloat(document.querySelector('.row').style.top) > 40000"
        assert.same({}, b:errors())
    end)
end)

describe("the curves in a terminal", function()
    it("are a table of budgets, the best policy first", function()
        local function curve(name, ...)
            local points = {}
            for i, value in ipairs { ... } do
                points[i] = { at = 2.0 ^ (i - 1), value = value }
            end
            return { policy = name, points = points }
        end
        local result = result_of(60)
        result.curves = { samples = { curve("io", 0, 0, 0.25), curve("tot <b>", 0.5, 0.5, 0.5),
            curve("search", 0, 1, 1) } }
        assert.same({ "", "accuracy by samples", "POLICY        1        2        4",
            "search    0.0 %  100.0 %  100.0 %", "tot <b>  50.0 %   50.0 %   50.0 %",
            "io        0.0 %    0.0 %   25.0 %" }, curves.lines(result, style.of(1)))
        local narrow = style.of(1, { is_terminal = true, measure = function() return 30 end,
            env = function() return nil end })
        assert.equal("search   100.0 %  100.0 %", curves.lines(result, narrow)[4])
        result.curves = { samples = { curve("io", 1) } }
        assert.same({}, curves.lines(result, narrow))
    end)
end)

describe("the page of a logged evaluation", function()
    it("has the calls and the tree of each run", function()
        local model = shell.root .. "/scripts/models/arithmetic.lua"
        local place <close> = shell.directory()
        place:write("e.lua", ([[local tot = require "ponder.strategy.tot"
            return { data = { { id = "x", question = "Use 4 4 6 8 to make 24" } }, policies = {
                tot = tot.new { model = "script:%s" } },
                score = function() return true end }]]):format(model))
        local done = shell.ponder({ "eval", "--log", "e.db", "--html", "e.html", "e.lua" },
            { cwd = place.path, env = { HOME = "/nonexistent" } })
        assert.equal(0, done.status, done.err)
        local text = place:read "e.html"
        assert.truthy(text:find('"runs":{"tot\\nx\\n1":{"calls":[{', 1, true))
        local later = shell.ponder({ "eval", "--rescore", "e.db", "--html", "f.html", "e.lua" },
            { cwd = place.path, env = { HOME = "/nonexistent" } })
        assert.equal(0, later.status, later.err)
        assert.matches('"tree":"[^"]+', place:read "f.html")
    end)
end)
