--- Loads the policies that a command line names, files or built in, for `ponder serve` and `mcp`.

local args = require "ponder.args"
local cli = require "ponder.cli.shared.main"
local confined = require "ponder.cli.shared.confined"
local converse = require "ponder.think.strategy.converse"
local failures = require "ponder.run.task.failures"
local files = require "ponder.run.log.files"
local flags = require "ponder.cli.shared.flags"
local host = require "ponder.core.host"
local json = require "ponder.json"
local logging = require "ponder.cli.shared.logging"
local logged = require "ponder.run.log.command"
local model = require "ponder.model"
local options = require "ponder.base.options"
local policies = require "ponder.serve.http.policies"
local server = require "ponder.serve"
local strategy = require "ponder.strategy"
local toolbox = require "ponder.cli.shared.toolbox"

local shared = {}

local function nothing() end

local SILENT = { think = nothing, write = nothing, progress = nothing, log = nothing }

local STRATEGIES, ASKS_MODELS = {}, { chat = true }
for _, name in ipairs(strategy.names) do
    STRATEGIES[name], ASKS_MODELS[name] = true, true
end

local VALUES = { integer = "N", number = "USD" }

---A section of flags that are options of serve.new; as flags, times have units.
---@param names string[] of the options
function shared.server_flags(title, names)
    local section = { title = title }
    for i, name in ipairs(names) do
        local option = options.merge({ name = name }, server.option_rules[name])
        local flag, is_time = name:gsub("_ms$", "")
        section[i] = is_time > 0 and { flag, value = "TIME", type = "duration", min = 0 }
            or { flag, value = VALUES[option.type], type = option.type, min = option.min }
        section[i].of_server, section[i].help = name, flags.help_of(option)
    end
    return section
end

---The options of serve.new that these flags give.
---@param rules table<string, ArgumentRule> of the command
function shared.server_options(rules, given)
    local opts = {}
    for flag, rule in pairs(rules) do
        local value = rule.of_server and given[flag]
        if value then
            opts[rule.of_server] = rule.type ~= "duration" and value
                or math.max(math.floor(value * 1000 + 0.5), 1)
        end
    end
    return opts
end

---Parses the arguments of `serve` or `mcp`, with the flags of the strategies that they name.
function shared.parse(called, list, own)
    local rules = {}
    for _, word in ipairs(list) do
        if STRATEGIES[word] then
            options.merge(rules, (flags.of(strategy.named(word).options())))
        end
        if ASKS_MODELS[word] then
            options.merge(rules, (args.collect(toolbox.OPTIONS)))
        end
    end
    return args.parse(called, list, options.merge(rules, own))
end

-- A built-in strategy, with its own options out of the flags of several.
local function strategy_policy(name, given, box)
    local library = strategy.named(name)
    local opts = cli.expect_flag(name, flags.options(given, (flags.of(library.options()))))
    opts.model, opts.tools = given.model, box.tools
    opts.budget = opts.budget and options.merge({}, opts.budget)
    if opts.budget then
        opts.budget.max_cost, opts.budget.timeout_ms = nil, nil -- the server's
    end
    local ok, made = pcall(library.new, opts)
    failures.pass_stop(ok, made)
    cli.expect_flag(name, ok, (tostring(made):gsub("^.-strategy%.%w+%.new: ", "")))
    cli.need_flag(name, made:open_models()) -- better now than at each request
    return policies.of(name, { run = made, description = library.summary,
        annotations = { readOnlyHint = not box.tools } })
end

-- The policy `chat`: a streamed reply of a model, which may call tools.
local function chat_policy(name, given, box)
    local m = cli.need_flag(name, model.try_open(given.model))
    return policies.of(name, { description = m.name,
        annotations = { readOnlyHint = not box.tools }, run = function(request)
        local params = request.params
        local reply, message, code = converse.run(m, { messages = request.messages,
            temperature = tonumber(params.temperature), top_p = tonumber(params.top_p),
            seed = request.seed, max_output_tokens = request.max_output_tokens,
            response_format = request.response_format,
            on_delta = function(text, kind)
                if kind == "reasoning" then
                    request:think(text)
                else
                    request:write(text)
                end
            end }, { tools = function() return box:current() end,
            on_tool = function(tool, called_with)
                request:think(("calls %s %s\n"):format(tool, called_with))
            end })
        if not reply then
            return nil, message, code
        end
        local answer = request:text() == "" and reply.text or request:text()
        if reply.truncated or reply.finish_reason == "length" then
            return { answer = answer, truncated = true }
        end
        return answer
    end })
end

-- The policies of the value that a file has returned.
local function policies_of(path, name, value, opts)
    local list, problem = policies.of(name, value, opts)
    return list, problem and ("%s: %s"):format(path, problem)
end

-- `opts` are those of strategies that the file describes: model, tools.
local function load_policies(name, path, opts)
    local value, message, code = files.run(path, "script")
    if message then
        return nil, message, code
    end
    return policies_of(path, name, value, opts)
end

-- Makes the `reload` functions of a file's policies. They load the file again when its text has
-- changed; if that fails they keep the old policies.
local function reloader(name, path, opts)
    local seen = files.read(path, "script")
    local current = {}
    return function(policy)
        return function()
            local text = files.read(path, "script")
            if text and text ~= seen then
                local list, message = load_policies(name, path, opts)
                seen = text
                if not list then
                    io.stderr:write(("ponder: cannot reload %s\n"):format(message))
                end
                for _, one in ipairs(list or {}) do
                    current[one.name] = one
                end
            end
            return current[policy.name]
        end
    end
end

local function file_policies(word, given, box)
    local name, path = word:match "^([%w_.-]+)=(.+)$"
    path = path or word
    model.config() -- raises if it is broken: better now than at each request
    name = name or path:gsub("^.*/", ""):gsub("%.lua$", "")
    if given.untrusted then
        local value = cli.need(confined.load(path, "policies", { name = name,
            model = given.model }, given))
        return cli.need(policies_of(path, name, value))
    end
    host.set_script_directory(cli.directory_of(path))
    local opts = { model = given.model, tools = box.tools }
    local list = cli.need(load_policies(name, path, opts))
    local reload = given.reload and reloader(name, path, opts)
    for _, policy in ipairs(reload and list or {}) do
        policy.reload = reload(policy)
    end
    return list
end

---Loads the policies that operands name. Ends the command if one cannot be loaded.
---@param operands string[] FILE.lua, NAME=FILE.lua, tot, got, trm, cot, chat
---@param given table the flags: model, reload, and those of the strategies
---@return ponder.serve.Policy[] list
function shared.load(operands, given)
    local box, all = toolbox.open(given), {}
    for _, word in ipairs(operands) do
        local make = STRATEGIES[word] and strategy_policy or word == "chat" and chat_policy
            or file_policies
        local list = make(word, given, box)
        table.move(list, 1, #list, #all + 1, all)
    end
    return all
end

-- Answers a logged request again, for `ponder replay FILE#3` and `fork`; prints the answer.
local function answer_again(play, operands, rules, given)
    local limits = options.merge({ timeout_ms = server.option_rules.timeout_ms.default },
        shared.server_options(rules, given))
    local asked = play.request
    local fields = asked and type(asked.input) == "string" and json.decode(asked.input)
    cli.expect(type(fields) == "table", ("this is the log of a server: name one of its requests, "
        .. "such as %s#2"):format(play.past.path))
    for _, policy in ipairs(shared.load(operands, given)) do
        if policy.name == asked.name then
            local run = policy.run
            policy.run = function(request)
                local value, why, code = run(request)
                local answer = type(value) == "table" and value.answer or value or request:text()
                io.stdout:write(value == nil and why and "" or tostring(answer) .. "\n")
                return value, why, code
            end
            local result, problem = policies.call(policy, fields, SILENT, limits,
                math.type(asked.seed) == "integer" and asked.seed or nil)
            return result and 0 or cli.report_error(problem.message)
        end
    end
    cli.expect(nil, ("the policy %s no longer exists"):format(asked.name))
end

---Redirects print and io.write to standard error: standard output may carry a protocol.
function shared.print_to_stderr()
    print = function(...) -- luacheck: ignore 121
        local texts = table.pack(...)
        for i = 1, texts.n do
            texts[i] = tostring(texts[i])
        end
        io.stderr:write(table.concat(texts, "\t"), "\n")
    end
    io.output(io.stderr)
end

---Begins a server: its output, and its log if --log names one. If a logged request is to be
---answered again, does that instead.
---@param rules table<string, ArgumentRule> of the command
---@param given table the flags
---@param operands string[] as of load
---@return integer? status of a request that was answered again
function shared.begin(command, rules, given, operands, arguments)
    shared.print_to_stderr()
    local is_played, reloads = logged.is_played(), false
    for _, word in ipairs(operands) do
        reloads = reloads or not STRATEGIES[word] and word ~= "chat"
    end
    cli.refuse(given.reload and not reloads and "--reload needs a policy in a file")
    for _, name in ipairs { "sync", "log_max_runs" } do
        cli.refuse(given[name] and not given.log and not is_played
            and args.flag(name) .. " needs --log")
    end
    logging.begin({ log = given.log, sync = given.sync, log_max_runs = given.log_max_runs,
        no_log = not given.log and not is_played },
        { command = command, arguments = arguments }, { adds = true })
    local play = logged.current() and logged.current().play
    return play and answer_again(play, operands, rules, given)
end

return shared
