--- `ponder fork [FILE]`: runs a logged run again with changes; its log answers equal requests.

local rerun = require "ponder.run.log.rerun"
local cli = require "ponder.cli.shared.main"
local edits = require "ponder.run.log.edit"
local flags = require "ponder.cli.shared.flags"
local host = require "ponder.core.host"
local prompt = require "ponder.prompt"
local read_file = require("ponder.base.file").read

local fork = cli.command({ files = true, expects = { 0, 1, "one log" } }, {
    { "script", value = "NEW", files = true, help = "run NEW instead of the script" },
    { "prompts", value = "DIR", files = true, help = "look for prompt files there first" },
    { "o", value = "OPT=VALUE,...", help = "replace options of the command or of the script: "
        .. "-o temperature=0.2,max-depth=4" },
    { "node", value = "ID", help = "replace a node's text in the reply that has it" },
    { "search", value = "N", type = "integer", min = 1, help = "the search of --node" },
    { "call", value = "N", type = "integer", min = 1, help = "replace reply or prompt of call N" },
    { "text", value = "FILE", files = true, help = "the new text of --node, or reply of --call" },
    { "ask", value = "FILE", files = true, help = "the new last message of --call" },
    { "log", value = "FILE", files = true, help = "log the new run in FILE" },
    flags.TRUST,
})

fork.summary = "run a logged run again with changes, paying only for new calls"

fork.about = [[
ponder fork [OPTION...] [FILE]

Runs the script of a log again, in its current version and with the changes that the options make,
into a new log. A call with the same model, messages, parameters and sample number is answered from
FILE; others are made. At the end it reports the calls and the money saved. FILE is a path, or the
name or number of a run in `ponder log`; without it, the newest run.

With --node or --call the run changes at that point; earlier calls are answered from FILE.

  echo "6 - 4 = 2 (left: 2 4 8)" >thought.txt; ponder fork FILE --node n7 --text thought.txt]]

-- The index of `--` among words; else that after them.
local function end_of(list, first)
    while list[first] and list[first] ~= "--" do
        first = first + 1
    end
    return first
end

-- The index of what follows the options of `ponder run`: the script, or the arguments of -e.
local function script_at(list)
    local run = require "ponder.cli.run"
    return select(3, run.parse("ponder run", list, run.rules)) or #list + 1
end

-- The index at which to insert an option: `ponder run` and its script may both have one of that
-- name.
local function index_for(past, list, flag)
    if past.run.command ~= "run" then
        return end_of(list, 1)
    end
    local at, had = script_at(list), false
    local last = end_of(list, at + 1)
    for i = at + 1, last - 1 do
        had = had or list[i]:match "^[^=]*" == flag
    end
    local name = flag:sub(3):gsub("-", "_")
    return not had and require("ponder.cli.run").rules[name] and at or last
end

-- Splits OPT=VALUE,... at the commas before an option. What names no option of the command is part
-- of a text or list before it: policy=io,bon16.
local function split_options(past, text)
    local parts, rules = {}, {}
    for name, rule in pairs(require("ponder.cli." .. past.run.command).rules or {}) do
        rules[name], rules[rule.alias or name] = rule, rule
    end
    local function rule_of(name)
        return name and rules[(name:gsub("-", "_"))]
    end
    for part in text:gmatch("[^,]+") do
        local name = part:match "^%-*([%w_-]+)=" or part:match "^%-*([%w_-]+)$"
        local before = parts[#parts]
        local rule = before and rule_of(before.name)
        local is_text = rule and rule.value and not rule.enum
            and (not rule.type or rule.type == "string" or rule.type == "list")
        if is_text and not rule_of(name) then
            before.text = before.text .. "," .. part
        else
            cli.expect(name, ("-o must be OPT=VALUE,... (got %s)"):format(part))
            parts[#parts + 1] = { name = name, text = part:match "=(.*)$" or false }
        end
    end
    return parts
end

-- The arguments of the new run.
local function changed_arguments(past, opts)
    local given = past.run.arguments
    local list = table.move(given, 1, #given, 1, {})
    for i = (past.run.command == "run" and script_at(list) or end_of(list, 1)) - 1, 1, -1 do
        if list[i]:find "^%-%-log%f[=\0]" then -- the new run has its own
            table.move(list, i + (list[i] == "--log" and 2 or 1), #list + 2, i)
        end
    end
    if opts.script then
        cli.expect(past.run.command == "run" and past.run.script ~= "-e",
            "--script applies only to runs of a script file")
        list[script_at(list)] = host.absolute(opts.script) or opts.script
    end
    for _, part in ipairs(split_options(past, opts.o or "")) do -- the last one of a name counts
        local flag = "--" .. part.name:gsub("_", "-")
        table.insert(list, index_for(past, list, flag), flag
            .. (part.text and "=" .. part.text or ""))
    end
    if opts.prompts then
        cli.refuse_flag("--prompts", prompt.problem(opts.prompts))
        host.set_environment("PONDER_PROMPTS", host.absolute(opts.prompts))
    end
    return list
end

-- What is wrong with a combination of flags.
local function misuse(opts)
    if opts.node and opts.call then
        return "--node or --call, not both"
    elseif opts.node and (not opts.text or opts.ask) then
        return "--node needs the new text of the node: --text FILE"
    elseif opts.call and not opts.text == not opts.ask then
        return "--call needs its new reply (--text FILE) or its new prompt (--ask FILE)"
    elseif not opts.node and (opts.search or (opts.text or opts.ask) and not opts.call) then
        return "--text, --ask and --search need --node ID or --call N"
    end
end

-- The edit that the options ask for, if any.
local function edit_of(past, opts)
    if not opts.node and not opts.call then
        return nil
    end
    local text = cli.expect(read_file(opts.text or opts.ask)):gsub("\r?\n$", "")
    local run = past.inner or past.run.id
    if opts.node then
        return cli.expect(edits.node(past.db, run, { id = opts.node, search = opts.search,
            text = text }))
    end
    return cli.expect(edits.call(past.db, run, { call = opts.call, text = opts.text and text,
        prompt = opts.ask and text }))
end

function fork.run(opts, operands)
    cli.refuse(misuse(opts))
    local past = cli.need(rerun.open(operands[1], "read"))
    cli.refuse(past:refusal("fork", opts.trust, opts.node ~= nil or opts.call ~= nil), 1)
    cli.need(cli.logged(past.run.command))
    local list, edit = changed_arguments(past, opts), edit_of(past, opts)
    local status, failure = past:fork(cli.execute, list, opts.log, edit)
    if edit and not edit.applied then
        io.stderr:write(("ponder fork: the script did not make call %d again: nothing was edited\n")
            :format(edit.call))
    end
    return status, failure
end

return fork
