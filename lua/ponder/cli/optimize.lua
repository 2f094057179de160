--- `ponder optimize FILE`: improves prompts and options of a policy, and says whether they did.

local amount = require "ponder.show.amount"
local changed = require "ponder.show.changed"
local cli = require "ponder.cli.shared.main"
local closing = require "ponder.show.closing"
local eval = require "ponder.cli.eval"
local file = require "ponder.base.file"
local files = require "ponder.run.log.files"
local flags = require "ponder.cli.shared.flags"
local grid = require "ponder.show.grid"
local json = require "ponder.json"
local limits = require "ponder.cli.shared.limits"
local logged = require "ponder.run.log.command"
local logging = require "ponder.cli.shared.logging"
local optimize = require "ponder.optimize"
local options = require "ponder.base.options"
local outputs = require "ponder.cli.shared.outputs"
local private = require "ponder.core.private"
local quote = require "ponder.quote"
local remote = require "ponder.serve.queue.evaluation"
local strategy = require "ponder.strategy"
local style = require "ponder.show.style"
local tables = require "ponder.show.eval.table"
local task = require "ponder.task"
local text = require "ponder.show.text"
local view = require "ponder.show.terminal"

local NOT_BETTER = 99 -- exit status of --require-better
local REDRAW_S = 0.2
local MAX_ROWS = 10
local OUTPUT = "optimized" -- default of --output
local WRITTEN = "-- Written by ponder optimize" -- how its files begin

local WORDS = { ["true"] = true, ["false"] = false }

-- A section with flags of ponder eval.
local function like_eval(title, ...)
    local section = { title = title }
    for i, name in ipairs { ... } do
        section[i] = options.merge({ name, modes = false }, eval.rules[name])
    end
    return section
end

local command = cli.command({ files = true }, {
    { title = "What changes",
        { "policy", value = "NAME", help = "the policy to optimize (default: the only one)" },
        { "prompt", value = "NAME,...", many = true,
            help = "prompts to improve; NAME=FILE begins with the text of FILE" },
        { "option", value = "NAME=VALUES", many = true,
            help = "an option to change, such as max_depth=2..5 or tot.search=bfs,beam" },
        flags.PROMPTS,
    },
    { title = "How",
        { "reflect_model", value = "NAME", help = "writes prompts (default: the policy's model)" },
        { "minibatch", value = "N", type = "integer", min = 1,
            help = "items for each change (default: 3)" },
        { "max_candidates", value = "N", type = "integer", min = 1, max = 100000,
            help = "candidates, the seed included (default: 100)" },
        { "held_out", value = "SHARE", type = "number", min = 0.01, max = 0.99,
            help = "share of the items that only the end runs on (default: 0.33)" },
        { "round_size", value = "N", type = "integer", min = 1,
            help = "changes at once, which do not see each other (default: 1)" },
        { "search", value = "FILE", files = true,
            help = "a search policy (default: scripts/policies/pareto.lua)" },
    },
    like_eval("Runs", "model", "limit", "sample", "seed", "concurrency", "workers", "queue"),
    like_eval("Budgets; part is left for the items held out", "max_cost", "max_calls",
        "max_total_tokens", "timeout", "max_cost_per_item", "timeout_per_item", "cache",
        "batch", "batch_poll", "detach"),
    { title = "Output",
        { "output", value = "DIR", files = true,
            help = "write the winner's prompt file there (default: ./" .. OUTPUT .. ")" },
        { "keep_front", value = "DIR", files = true,
            help = "write the prompt files of the front: DIR/ID/NAME.lua" },
        { "require_better", help = "exit 99 unless the winner is better on the items held out" },
        { "json", help = "print one JSON object" },
    },
    { title = "Run log", logging.OPTIONS },
})

command.summary = "improve prompts and options of a policy, and say whether they did"

command.about = [[
ponder optimize [OPTION...] FILE

FILE is an evaluation (ponder init eval writes one). Its items are split at random: candidates are
developed on two thirds; at the end the winner and the seed (what is there now) run on the others,
which no prompt ever contains. A model reads what went wrong on a few items and writes a better
prompt; two candidates that are best on different items are merged; an option takes a step. A
candidate that is not better on the few items runs on no others.

--prompt names a prompt of a strategy's prompt file (ponder prompts list: tot.generate is generate),
or prompt and system of a policy { model, prompt }. If the winner is significantly better (p below
0.05), its prompts are written as a prompt file for --prompts; if not, the seed is kept, and the
exit status is 0, too. After Ctrl-C, ponder resume continues and pays for nothing twice.]]

-- ---- the command line ----

-- Names or texts of prompts, and ranges of options; --option may name the policy.
local function read_changes(given)
    local prompts, ranges = {}, {}
    for _, written in ipairs(given.prompt or {}) do
        local name, path = written:match "^([^=]+)=(.+)$"
        prompts[name or 0] = name and cli.need(files.read(path, "data")) or nil
        for one in (name and "" or written):gmatch "[^,]+" do
            prompts[#prompts + 1] = one
        end
    end
    for _, written in ipairs(given.option or {}) do
        local name, values = written:match "^([^=]+)=(.+)$"
        local policy, own = (name or ""):match "^(.+)%.([%w_]+)$"
        local low, high = (values or ""):match "^(.-)%.%.(.+)$"
        local range = { min = tonumber(low), max = tonumber(high) }
        for word in (low and "" or values or ""):gmatch "[^,]+" do
            local value = tonumber(word) or WORDS[word]
            value = value == nil and word or math.tointeger(value) or value
            range[#range + 1] = value
        end
        cli.refuse_flag("--option", not (range[2] ~= nil or range.min and range.max
            and range.min < range.max) and ("expected NAME=LOW..HIGH or NAME=A,B,C (got %s)")
            :format(written) or policy and given.policy and policy ~= given.policy
            and ("%s is not about the policy %s"):format(written, given.policy))
        given.policy = given.policy or policy
        ranges[own or name] = range
    end
    cli.expect(next(prompts) or next(ranges), "expected --prompt or --option: what is to change")
    return prompts, ranges
end

-- The evaluation, and the place of the winner's prompt file; ends the command if another is there.
local function load_evaluation(path, given)
    local evaluation = eval.load_file(path, given)
    local policies = type(evaluation.policies) == "table" and evaluation.policies or {}
    local names = options.names(policies)
    given.policy = given.policy or not names[2] and names[1] or nil
    cli.expect(given.policy, "--policy must name the policy to optimize; there are "
        .. table.concat(names, ", "))
    local value = policies[given.policy]
    cli.refuse_flag("--policy", value == nil and ("there is no policy %s%s; there are %s"):format(
        options.show(given.policy), options.hint(given.policy, names), table.concat(names, ", ")))
    local name = type(value) == "table" and (value.kind and value.kind.name or value.name)
    local target = ("%s/%s.lua"):format(given.output or OUTPUT, name or given.policy)
    local there = not logged.is_played() and file.read(target)
    cli.refuse(there and there:sub(1, #WRITTEN) ~= WRITTEN
        and target .. " is a prompt file of another origin; --output DIR names another directory")
    return evaluation, target
end

-- ---- output ----

local COLUMNS = { { "#", right = true }, { "FROM", drop = 2 }, { "CHANGE", drop = 1 },
    { "DEVELOP", right = true }, { "ITEMS", right = true, drop = 3 }, { "TEXT", least = 10 } }

-- The winner, the front and the seed.
local function table_lines(result, out, binary)
    local shown, is_shown, rows = { result.winner }, {}, {}
    table.move(result.front, 1, math.min(MAX_ROWS, #result.front), 2, shown)
    shown[#shown + 1] = result.seed
    for _, one in ipairs(shown) do
        rows[#rows + 1] = not is_shown[one] and { tostring(one.id), one.parent and one.parent.id
            .. (one.with and " + " .. one.with.id or "") or "-",
            one.change .. (one.part and " " .. one.part or ""), tables.score(one.score, binary),
            ("%d/%d"):format(one.measured, #one.scores),
            text.cut(text.line(optimize.label(one)), 60) } or nil
        is_shown[one] = true
    end
    return grid.new(COLUMNS, rows, out):lines(rows)
end

-- What the items held out say.
local function verdict_lines(result, binary)
    local function score(figure)
        return ("%s (95 %%: %s)"):format(tables.score(figure.value, binary),
            tables.interval(figure, binary))
    end
    local held, winner, d = result.held_out, result.winner, result.difference
    if result.verdict == "not evaluated" then
        return { "not evaluated on the items held out: the budget was spent; the seed is kept" }
    elseif not d then
        return { ("held out: seed %s, %s"):format(score(held.seed),
            quote.count(held.seed.n, "item")),
            "not better: no candidate is better than the seed on the items to develop on" }
    end
    return { ("held out: seed %s, #%d %s; difference %s (%s), p %s, %s%s"):format(
        score(held.seed), winner.id, score(held.winner), tables.score(d.value, binary, true),
        tables.interval(d, binary, true), tables.p_value(d.p), quote.count(d.n, "item"),
        d.n < #held.ids and (" of %d: the budget was spent"):format(#held.ids) or ""),
        result.verdict == "better" and ("better: #%d"):format(winner.id)
            or "not better: the difference is not significant, so the seed is kept" }
end

-- Writes a candidate's prompt file; nil: it has no prompts.
local function write_file(result, path, target, candidate, binary)
    local lines = { ("%s %s: candidate %d of %d for the policy %s."):format(WRITTEN:sub(4), path,
        candidate.id, #result.candidates, result.subject.name) }
    table.move(candidate == result.winner and verdict_lines(result, binary) or {}, 1, 2, 2, lines)
    lines[#lines + 1] = ("Develop: %s on %d items; the seed: %s. The search cost %s (%s)."):format(
        tables.score(candidate.score, binary), #candidate.scores, tables.score(result.seed.score,
        binary), amount.money(result.spent.cost), amount.of(result.spent.calls, "call"))
    for _, name in ipairs(options.names(candidate.options)) do
        lines[#lines + 1] = ("Its option %s is %s."):format(name, tostring(candidate.options[name]))
    end
    local content = result.subject:file(candidate, lines)
    if content and not files.is_offline() then
        cli.need(private.make_directory(target:match "^(.*)/"))
    end
    return content and cli.need(outputs.write(target, content)) and target
end

local function print_json(result)
    local shown = options.pick(result, { "verdict", "difference", "held_out", "develop",
        "stop_reason", "spent" })
    for _, name in ipairs { "best", "seed", "winner" } do
        shown[name] = result[name].id
    end
    shown.front, shown.candidates = json.array {}, json.array {}
    shown.failures = json.array(table.move(result.failures, 1, #result.failures, 1, {}))
    for i, candidate in ipairs(result.front) do
        shown.front[i] = candidate.id
    end
    for i, candidate in ipairs(result.candidates) do
        shown.candidates[i] = optimize.describe(candidate)
    end
    cli.print_json(shown)
end

-- Shows a result and writes its files; returns the exit status.
local function show(given, path, target, result)
    local binary, written = true, nil
    for _, outcome in pairs(result.seed.develop) do
        binary = binary and (outcome.score == 0 or outcome.score == 1)
    end
    if result.verdict == "better" then
        written = write_file(result, path, target, result.best, binary)
    end
    for _, candidate in ipairs(given.keep_front and result.front or {}) do
        write_file(result, path, ("%s/%d/%s"):format(given.keep_front, candidate.id,
            target:match "[^/]*$"), candidate, binary)
    end
    if given.json then
        print_json(result)
    else
        local lines = table_lines(result, style.of(1), binary)
        table.insert(lines, 1, ("%s: %s to develop on, %d held out; %s, %d on the front; "
            .. "ended by %s"):format(text.line(result.subject.name), quote.count(
            #result.develop.ids, "item"), #result.held_out.ids, quote.count(#result.candidates,
            "candidate"), #result.front, result.stop_reason))
        for _, failure in ipairs(result.failures) do
            lines[#lines + 1] = ("%s made no candidate: %s"):format(
                quote.count(failure.count, "proposal"), text.line(failure.message))
        end
        table.move(verdict_lines(result, binary), 1, 2, #lines + 1, lines)
        lines[#lines + 1] = result.winner ~= result.seed and changed.unified(
            optimize.label(result.seed), optimize.label(result.winner), "seed",
            "candidate " .. result.winner.id) or nil
        lines[#lines + 1] = written and ("wrote %s, for --prompts %s"):format(written,
            written:match "^(.*)/") or nil
        io.stdout:write(quote.terminal(table.concat(lines, "\n")), "\n")
    end
    return given.require_better and result.verdict ~= "better" and NOT_BETTER or 0
end

-- How far it is: "best 0.71 (#12), seed 0.40, 31 candidates, 412 calls, $1.20".
local function line_of(state)
    local best = state:best()
    local facts = { ("best %.3g (#%d)"):format(best.score, best.id),
        ("seed %.3g"):format(state.seed.score), quote.count(#state.candidates, "candidate") }
    local spent = amount.spent(state.budget, task.now() - state.began)
    return table.concat(table.move(spent, 1, #spent, 4, facts), ", ")
end

local function measure(given, path)
    local prompts, ranges = read_changes(given)
    local evaluation, target = load_evaluation(path, given)
    local opts = options.merge(eval.run_options(given, path, { "policy", "reflect_model",
        "minibatch", "max_candidates", "held_out", "seed", "limit", "sample", "concurrency" }),
        { batch = given.round_size, eval = evaluation, prompts = prompts, options = ranges,
            search = given.search and cli.need(strategy.load_policy(given.search)) })
    local err = style.of(2)
    local drawn = view.new(io.stderr, err)
    function drawn.lines()
        return given.state and { text.cut(line_of(given.state), err:size() - 1, err:mark()) } or {}
    end
    local _ <close> = err.live and not given.json and drawn:start(REDRAW_S) or nil
    function opts.on_progress(state)
        given.state = state
    end
    local _ <close> = given.workers and cli.need(remote.open(given, path, { "model", "limit",
        "sample", "seed" }, opts)) or nil
    local result = cli.need(optimize.run(opts))
    logged.answer { verdict = result.verdict, best = optimize.describe(result.best) }
    return show(given, path, target, result)
end

command.run = limits.with_models(function(given, operands, list)
    cli.expect(#operands == 1, "expected one file: ponder optimize [OPTION...] FILE")
    eval.prepare(given, operands[1])
    logging.begin(given, { command = "optimize", arguments = list, script = operands[1] })
    local _ <close> = limits.cache(given.cache)
    local told <close> = setmetatable({}, { __close = function() -- luacheck: ignore 211
        if task.interrupted() and given.state then
            io.stderr:write("ponder optimize: interrupted, nothing was run on the items held out: ",
                line_of(given.state), "\n")
        end
    end })
    return closing.around("optimize", measure, given, operands[1])
end)

return command
