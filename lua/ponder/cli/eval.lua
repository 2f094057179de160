--- `ponder eval FILE`: which policy is better, by how much, at what cost.

local changes = require "ponder.show.server.changes"
local cli = require "ponder.cli.shared.main"
local closing = require "ponder.show.closing"
local compare = require "ponder.judge.eval.compare"
local confined = require "ponder.cli.shared.confined"
local curves = require "ponder.show.eval.curves"
local definition = require "ponder.judge.eval.definition"
local eval = require "ponder.eval"
local files = require "ponder.run.log.files"
local flags = require "ponder.cli.shared.flags"
local formats = require "ponder.show.eval.formats"
local logging = require "ponder.cli.shared.logging"
local host = require "ponder.core.host"
local json = require "ponder.json"
local limits = require "ponder.cli.shared.limits"
local live = require "ponder.show.eval.live"
local log = require "ponder.log"
local log_file = require "ponder.run.log.file"
local logged = require "ponder.run.log.command"
local options = require "ponder.base.options"
local outputs = require "ponder.cli.shared.outputs"
local matrix = require "ponder.show.eval.matrix"
local model = require "ponder.model"
local page = require "ponder.show.eval.page"
local power = require "ponder.judge.eval.power"
local quote = require "ponder.quote"
local queue = require "ponder.queue"
local recorded = require "ponder.judge.eval.recorded"
local remote = require "ponder.serve.queue.evaluation"
local scheduler = require "ponder.run.task.scheduler"
local source = require "ponder.judge.import.source"
local style = require "ponder.show.style"
local summary = require "ponder.judge.eval.summary"
local tables = require "ponder.show.eval.table"
local task = require "ponder.task"
local text = require "ponder.show.text"
local threshold = require "ponder.judge.eval.threshold"

local MISSED = 99 -- exit status
local GATHER_S = 0.05 -- an editor changes a file in several steps

local BUDGETS = { "max_cost", "max_cost_per_item", "max_calls", "max_total_tokens" }
-- Flags sent to workers.
local SENT = { "policy", "model", "where", "shuffle", "limit", "sample", "seed", "epochs",
    "at_samples", "beside" }
local OUTPUTS = { "html", "csv", "junit" }
local WRITERS = { html = page.write, csv = formats.csv, junit = formats.junit }

-- The modes in which flags count: the file is run, or run again whenever it changes (--watch);
-- recorded answers are scored (--rescore); two evaluations are compared (--compare).
local RUNS, SCORES = { "", "--watch" }, { "", "--watch", "--rescore" }
local ALL = { "", "--watch", "--rescore", "--compare" }
local PAIRED = { "", "--watch", "--rescore", "--power" }

-- A section whose flags count in these modes, but for those that say otherwise.
local function counting(modes, section)
    local list = { title = section.title }
    for i, rule in ipairs(section) do
        list[i] = options.merge({ modes = modes }, rule)
    end
    return list
end

local command = cli.command({ files = true }, {
    counting(RUNS, { title = "Runs",
        { "policy", value = "A,B", type = "list", help = "run these policies only" },
        { "model", value = "NAME", modes = SCORES,
            help = "for what names no model; FILE gets it, like all flags, as its argument" },
        flags.PROMPTS,
        { "at_samples", value = "N,N", type = "list",
            help = "run each policy at N samples, as NAME@N: compare at equal numbers" },
        { "no_beside", help = "with --at-samples: no vote and best of n beside strategies" },
        { "where", value = "COND", help = 'only such items: "level >= 3 and topic == law"' },
        { "shuffle", value = "SEED", type = "integer", help = "shuffle the items, before --limit" },
        { "limit", value = "N", type = "integer", min = 1, help = "only the first N items" },
        { "sample", value = "N", type = "integer", min = 1, help = "N random items, by --seed" },
        { "seed", value = "S", type = "integer",
            help = "seed of the sample, order and runs (default: 0), and of calls (none)" },
        { "epochs", value = "N", type = "integer", min = 1, help = "run each item N times" },
        { "concurrency", value = "N", type = "integer", min = 1,
            help = "runs at once (default: 16; with --workers or --batch 1000)" },
        { "workers", value = "URL",
            help = "run on workers (ponder work redis://... --script FILE)" },
        { "queue", value = "NAME", help = "queue of the workers (default: default)" },
        { "retry_errors", modes = { "" },
            help = "rerun what failed, was stopped or is missing in the log of --log" },
        { "watch", modes = { "--watch" },
            help = "run again whenever FILE or its data change; no log" },
    }),
    counting(RUNS, { title = "Budgets",
        { "max_cost", value = "USD", type = "number", min = 0, help = "dollars of all runs" },
        { "max_calls", value = "N", type = "integer", min = 0, help = "model calls of all runs" },
        { "max_total_tokens", value = "N", type = "integer", min = 0, was = "max_tokens",
            help = "tokens of all runs, prompts and replies" },
        { "max_cost_per_item", value = "USD", type = "number", min = 0,
            help = "dollars of each run" },
        { "timeout_per_item", value = "TIME", type = "duration", unit = "ms", min = 1,
            help = "time of each run: 30s, 500ms, 2m" },
        { "timeout", value = "TIME", type = "duration", unit = "ms", min = 1,
            help = "time of all runs; what it cuts is not measured" },
        limits.RULES.cache,
        limits.BATCHES[1], limits.BATCHES[2], limits.BATCHES[3],
    }),
    counting(SCORES, { title = "Scoring",
        { "baseline", value = "POLICY", modes = PAIRED,
            help = "compare the others with this one" },
        { "against", value = "WHICH", enum = { "baseline", "all" }, modes = PAIRED,
            help = "comparisons: with the baseline, the default if named, or all pairs" },
        { "margin", value = "D", type = "number", min = 0, max = 1, modes = ALL,
            help = "differences below D do not matter; such policies are equivalent" },
        { "exclude_errors", help = "exclude failed runs from accuracy (else they count as wrong)" },
        { "decide", value = "ALPHA", type = "number", min = 0, max = 1, implied = 0.05,
            modes = RUNS, help = "end each policy once it is decided (default: 0.05)" },
        { "threshold", value = "COND", many = true, modes = ALL,
            help = 'such as "accuracy(tot) >= 0.7"; exit 99 if missed' },
    }),
    counting(SCORES, { title = "Output",
        { "json", modes = { "", "--watch", "--rescore", "--compare", "--power" },
            help = "print one JSON object" },
        { "rank", value = "MODEL", implied = "", help = "rank the policies by pairs: by their "
            .. "scores, or by this model's judgement of their answers" },
        { "matrix", help = "print which items each policy gets right" },
        { "html", value = "FILE", files = true, help = "write a page (-: to standard output)" },
        { "csv", value = "FILE", files = true, help = "write one line per run" },
        { "junit", value = "FILE", files = true, help = "write JUnit XML" },
    }),
    counting({ "--compare" }, { title = "Past evaluations",
        { "rescore", value = "LOG", files = true, modes = { "--rescore" },
            help = "score its answers again, without calls" },
        { "compare", help = "compare two evaluations: logs, or output of --json" },
        { "fail_on_regression",
            help = "exit 99 if a difference's interval lies below 0 (or -margin)" },
        { "power", value = "GUESS", modes = { "--power" },
            help = 'items to see a difference: "0.05 accuracy=0.7 correlation=0.5"' },
    }),
    { title = "Untrusted evaluations", counting(SCORES, confined.OPTIONS) },
    { title = "Run log", counting({ "" }, logging.OPTIONS) },
})
command.rules.no_log.modes = ALL -- there is none in the other modes

command.summary = "compare policies on many items: accuracy, cost, time, with intervals"

command.about = [[
ponder eval [OPTION...] FILE
ponder eval --compare A.db B.db
ponder eval --rescore LOG FILE
ponder eval --power DIFFERENCE [PILOT.db]

FILE is a Lua file that returns an evaluation: data, policies, score (ponder init eval writes one);
or a configuration of promptfoo (YAML, JSON), or a data set as OpenAI's Evals and inspect_ai have it
(JSON Lines, JSON, CSV). Of these it says first what it cannot carry over.
Each item of each policy and epoch is a run. After Ctrl-C, ponder resume continues and pays for
nothing twice. Exit status: 0; 99 when a threshold is missed; 1 when nothing could be measured; 2
for a usage error.]]

-- ---- the evaluation's file ----

---The evaluation that a file returns. Errors of the file propagate.
---@param given table the flags, which the file gets
function command.load_file(path, given)
    if given.untrusted then
        return cli.need(confined.load(path, "evaluation", { model = given.model }, given))
    end
    host.set_script_directory(cli.directory_of(path))
    local evaluation
    if source.is_foreign(path) then
        local lua, notes = cli.need(source.convert(path, path:match "[^/]*$"))
        for _, note in ipairs(notes) do
            io.stderr:write("ponder eval: ", quote.terminal(note), "\n")
        end
        local ok, made = pcall(load(lua, "@" .. path), given)
        cli.need(ok, ("%s: %s"):format(path, tostring(made):gsub("^.-:%d+: ", "")))
        evaluation = made
    else
        evaluation = cli.need(files.load(path, "script"))(options.merge({ seed = 0 }, given))
    end
    cli.need(type(evaluation) == "table", ("%s: must return an evaluation: a table with data, "
        .. "policies, score (got %s)"):format(path, options.show(evaluation)))
    return evaluation
end

---Checks and applies flags of runs: of workers, batches and prompts.
---@param given table changed
---@param path string of the evaluation
function command.prepare(given, path)
    given.concurrency = given.concurrency or given.batch and 1000 or nil
    cli.refuse(given.queue and (not given.workers and "--queue needs --workers"
        or queue.name_problem("--queue", given.queue)))
    cli.refuse((given.workers or given.untrusted) and source.is_foreign(path)
        and ("%s needs a Lua file: ponder init --from %s"):format(given.workers and "--workers"
        or "--untrusted", path))
    cli.refuse(flags.use_prompts(given))
end

---The options of runs that flags give.
---@param path string of the evaluation
---@param names string[] of flags whose options have the same names
function command.run_options(given, path, names)
    local budget = options.pick(given, { "max_cost", "max_calls", "max_total_tokens" })
    budget.timeout_ms = given.timeout
    return options.merge(options.pick(given, names), { budget = budget, budget_per_item = {
        max_cost = given.max_cost_per_item, timeout_ms = given.timeout_per_item },
        directory = cli.directory_of(path) or "." })
end

-- Checks, before the first run, that all thresholds are about policies of the evaluation.
local function check_thresholds(given, names)
    for _, one in ipairs(given.thresholds) do
        cli.expect(threshold.check(one, names))
    end
end

-- Flags that eval.run takes under the same names.
local RUN = { "policy", "at_samples", "beside", "where", "shuffle", "limit", "sample", "seed",
    "epochs", "concurrency", "baseline", "against", "exclude_errors", "decide", "margin" }

-- The evaluation of a file, and the options of eval.run.
local function load_checked(given, path)
    cli.expect(given.at_samples or not given.no_beside, "--no-beside needs --at-samples")
    given.beside = not given.no_beside
    for i, text_of_count in ipairs(given.at_samples or {}) do
        given.at_samples[i] = math.tointeger(tonumber(text_of_count)) or text_of_count
    end
    local problem = given.at_samples and definition.samples_problem(given.at_samples)
    cli.expect_flag("--at-samples", not problem, problem)
    local file = command.load_file(path, given)
    local names = options.names(type(file.policies) == "table" and file.policies or {})
    for i = given.at_samples and #names or 0, 1, -1 do
        local name = table.remove(names, i)
        for _, count in ipairs(given.at_samples) do
            names[#names + 1] = ("%s@%d"):format(name, count)
        end
    end
    check_thresholds(given, names)
    return file, command.run_options(given, path, RUN)
end

-- ---- output ----

-- Tests the thresholds, and prints the results; --json has them.
local function test(given, policies)
    local tests, missed = json.array {}, false
    for i, one in ipairs(given.thresholds) do
        tests[i] = threshold.test(one, policies)
        missed = missed or not tests[i].met
        if not given.json then
            local out = given.is_quiet and io.stderr or io.stdout
            out:write(("%s: %s (%s)\n"):format(tests[i].met and "met" or "missed",
                text.line(tests[i].text), tests[i].value and ("%.6g"):format(tests[i].value)
                or "not measured"))
        end
    end
    return tests, missed
end

-- Shows a result in every form that flags ask for; returns the exit status.
local function show(given, result)
    local out = style.of(1)
    if not given.is_quiet then
        cli.print_lines(tables.lines(result, out))
        cli.print_lines(curves.lines(result, out))
        if given.matrix then
            cli.print_lines(matrix.lines(result, out))
        end
    end
    if given.rank and result.policies[2] then
        result.ranking = cli.need(eval.rank(result, { judge = given.judge }))
        cli.print_lines(given.is_quiet and {} or tables.ranking(result.ranking, out))
    end
    local tests, missed = test(given, result.policies)
    local path = given.rescore or logged.path() -- of the log
    result.thresholds = tests
    if given.json then
        cli.print_json(result)
    end
    for _, name in ipairs(OUTPUTS) do
        if given[name] then
            cli.need(outputs.write(given[name], WRITERS[name](result, path)))
        end
    end
    cli.need(summary.is_measured(result), result.unfinished.reason
        and ("nothing could be measured: no item is complete (%s)"):format(result.unfinished.reason)
        or "nothing could be measured: every run failed")
    return missed and MISSED or 0
end

-- ---- modes ----

local function compare_logs(given, operands)
    local two = {}
    for i = 1, 2 do
        local meta, records = cli.need(recorded.read(operands[i]))
        two[i] = { meta = meta, records = records }
    end
    local list = compare.new(two[1], two[2], given.margin)
    cli.need(list[1], "the two evaluations have no policy in common")
    local names = {}
    for i, change in ipairs(list) do
        names[i] = change.policy
    end
    check_thresholds(given, names)
    if given.json then
        cli.print_json { changes = json.array(list) }
    else
        cli.print_lines(tables.changes(list, style.of(1)))
    end
    for _, change in ipairs(list) do
        change.name = change.policy
    end
    local _, missed = test(given, list)
    local regressed = given.fail_on_regression and compare.has_regressed(list, given.margin)
    return (missed or regressed) and MISSED or 0
end

-- Compares recorded policies as the flags say; the baseline comes first.
local function set_family(given, meta, path)
    local other = given.baseline and not options.has(meta.policies, given.baseline)
    cli.refuse(other and ("--baseline: %s has no policy %s%s; there are %s"):format(path,
        options.show(given.baseline), options.hint(given.baseline, meta.policies),
        table.concat(meta.policies, ", ")))
    meta.against = given.against or given.baseline and "baseline" or meta.against
    meta.margin = given.margin or meta.margin
    meta.baseline = given.baseline or meta.baseline
    meta.baselines = not given.baseline and meta.baselines or nil
    local names = { meta.baseline }
    for _, name in ipairs(meta.policies) do
        names[#names + 1] = name ~= meta.baseline and name or nil
    end
    meta.policies = names
end

-- The items that a difference needs, by a guess or a pilot.
local function show_power(given, pilot)
    local guess, result = cli.expect(power.parse(given.power)), nil
    if pilot then
        local meta, records = cli.need(recorded.read(pilot))
        set_family(given, meta, pilot)
        meta.curves = false
        result = summary.new(meta, records)
        cli.need(result.pairs[1], pilot .. " compares no policies")
    end
    local rows = power.rows(guess, result)
    local alpha = power.ALPHA / (result and #rows or 1)
    if given.json then
        cli.print_json { difference = guess.delta, accuracy = not result and guess.accuracy or nil,
            power = power.POWER, alpha = alpha, rows = json.array(rows) }
        return 0
    end
    cli.print_lines(tables.power(rows, guess, alpha, result ~= nil, style.of(1)))
    return 0
end

local function rescore(given, path)
    local meta, records = cli.need(recorded.read(given.rescore))
    check_thresholds(given, meta.policies)
    set_family(given, meta, given.rescore)
    given.seed = meta.seed -- as FILE had it
    local evaluation, scored, gone = cli.need(recorded.rescore(command.load_file(path, given),
        cli.directory_of(path) or ".", records, meta.call_seed, 1))
    if gone > 0 then
        meta.items = (meta.items or 0) - gone
        io.stderr:write(("ponder eval: skipped %s not in %s\n"):format(quote.count(
            #records - #scored, "record whose item is", "records whose items are"), path))
    end
    meta.scorers = {}
    for i, scorer in ipairs(evaluation.scorers) do
        meta.scorers[i] = scorer.name
    end
    meta.exclude_errors = given.exclude_errors or meta.exclude_errors
    if meta.curves ~= false and not evaluation.curves then
        io.stderr:write("ponder eval: no curves: ", given.rescore, " does not have their answers\n")
    end
    meta.curves = evaluation.curves
    return summary.new(meta, scored)
end

-- Moves the log to be retried, once nothing else can be wrong with the command.
local function set_log_aside(given, path)
    cli.need(recorded.read(given.log))
    local file, opts = load_checked(given, path)
    opts.seed = opts.seed or 0
    local problem = definition.problem(cli.need(definition.new(file, opts, 1)))
    cli.need(not problem, problem)
    given.known = cli.need(log_file.set_aside(given.log))
end

local function evaluate(given, path)
    local file, opts = load_checked(given, path)
    -- The records of an earlier log, recorded in the new one so that it can be replayed.
    opts.known = given.known and recorded.good(log.record("ponder eval --retry-errors", given.log,
        function()
            local meta, records = recorded.read(given.known)
            return meta and records or error(records, 0)
        end))
    local err = style.of(2)
    local shown <close> = err.live and not given.is_quiet
        and live.start(io.stderr, err, scheduler.clock) or nil
    opts.on_progress = shown and shown.take
    function opts.on_begin(stop)
        given.stop = stop
    end
    local _ <close> = given.workers and cli.need(remote.open(given, path, SENT, opts)) or nil
    return cli.need(eval.run(file, opts))
end

-- Gets a result, `mode(given, path)`, and shows it, also that of an evaluation that a signal ended;
-- returns the exit status, and a message.
local function measure(given, path, mode)
    local function show_result(result)
        logged.answer { name = result.meta.name, policies = result.policies }
        return show(given, result)
    end
    local status, message = cli.guarded(nil, function()
        return show_result(mode(given, path))
    end)
    local result = task.interrupted() and given.stop and given.stop "interrupted"
    if result and summary.is_measured(result) then
        cli.guarded(nil, show_result, result)
    end
    return status, message
end

-- Waits until a file that was read, or a directory of data, has other content.
local function await_change()
    local watched <close> = changes.watch(files.directories())
    cli.need(watched.sources[1], watched.problem) -- a directory that does not exist may still do
    while not files.have_changed() do
        watched:wait(watched.count)
        task.sleep(GATHER_S)
    end
end

local function watch(given, path)
    files.follow_modules()
    while true do
        local status, message = closing.around("eval", measure, given, path, evaluate)
        if not files.exists(path) then
            return status, message
        elseif message then
            cli.fail("ponder eval", message)
        end
        io.stderr:write("ponder eval: waiting for a change of ", path, " or its data\n")
        await_change()
        files.forget_modules()
    end
end

-- What is wrong with a combination of flags and operands.
local function misuse(given, operands)
    cli.check_modes(command, given, given.compare and "--compare" or given.rescore and "--rescore"
        or given.watch and "--watch" or given.power and "--power" or "")
    if given.compare then
        return #operands ~= 2 and "--compare takes two evaluations: --compare A.db B.db" or nil
    elseif given.power then
        return operands[2] and '--power takes one pilot, or none: --power "0.05" A.db' or nil
    elseif #operands ~= 1 then
        return "expected one file: ponder eval FILE"
    elseif given.retry_errors and not given.log then
        return "--retry-errors needs the log of the evaluation: --log FILE"
    end
end

command.run = limits.with_models(function(given, operands, list)
    confined.check(given, BUDGETS)
    cli.refuse(misuse(given, operands))
    for _, name in ipairs { "decide", "margin" } do
        cli.refuse((given[name] == 0 or given[name] == 1)
            and ("--%s must be between 0 and 1"):format(name))
    end
    command.prepare(given, operands[1])
    if given.rank and given.rank ~= "" then
        given.judge = cli.expect_flag("--rank", model.try_open(given.rank))
    end
    given.thresholds = {}
    for i, written in ipairs(given.threshold or {}) do
        given.thresholds[i] = cli.expect(threshold.parse(written))
    end
    local to_stdout = outputs.check(given, OUTPUTS)
    cli.refuse(to_stdout and given.json and "--json and a file - are both standard output")
    given.is_quiet = to_stdout or given.json
    if given.compare then
        return compare_logs(given, operands)
    elseif given.power then
        return show_power(given, operands[1])
    elseif given.rescore then
        return closing.around("eval", measure, given, operands[1], rescore)
    end
    if given.retry_errors and logged.is_played() then
        given.known = given.log
    elseif given.retry_errors then
        local status, message = cli.guarded(nil, set_log_aside, given, operands[1])
        if not given.known then
            return status, message
        end
    end
    if not given.watch then
        logging.begin(given, { command = "eval", arguments = list, script = operands[1] })
    end
    local _ <close> = limits.cache(given.cache)
    if given.watch then
        return watch(given, operands[1])
    end
    return closing.around("eval", measure, given, operands[1], evaluate)
end)

return command
