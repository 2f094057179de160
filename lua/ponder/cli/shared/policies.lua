--- The policies that a command line names: files, or built in. For `ponder serve` and `ponder mcp`.

local confined = require "ponder.report.confined"
local converse = require "ponder.strategy.converse"
local files = require "ponder.log.files"
local flags = require "ponder.cli.shared.flags"
local host = require "ponder.core.host"
local model = require "ponder.model"
local policies = require "ponder.serve.policies"
local strategy = require "ponder.strategy"
local toolbox = require "ponder.cli.shared.toolbox"

local shared = {}

local STRATEGIES, ASKS_MODELS = {}, { chat = true }
for _, name in ipairs(strategy.names) do
    STRATEGIES[name], ASKS_MODELS[name] = true, true
end

---The rules of a command and of the strategies that are named among its arguments.
---@param arguments string[]
---@param own table<string, ArgumentRule>
---@return table<string, ArgumentRule>
function shared.rules(arguments, own)
    local rules = {}
    for _, word in ipairs(arguments) do
        if STRATEGIES[word] then
            for name, rule in pairs((flags.of(strategy.named(word).options()))) do
                rules[name] = rule
            end
        end
        if ASKS_MODELS[word] then
            rules.tools, rules.mcp = toolbox.RULES.tools, toolbox.RULES.mcp
        end
    end
    for name, rule in pairs(own) do
        rules[name] = rule
    end
    return rules
end

-- The options of one strategy, out of the flags of several.
local function strategy_policy(name, given, box)
    local library = strategy.named(name)
    local own = flags.of(library.options())
    local opts, message = flags.options(given, own)
    if not opts then
        return nil, message
    end
    opts.model, opts.tools = given.model, box.tools
    opts.max_cost, opts.timeout = nil, nil -- the server's
    local ok, made = pcall(library.new, opts)
    if not ok then
        return nil, (tostring(made):gsub("^.-strategy%.%w+%.new: ", ""))
    end
    return policies.of(name, made)
end

-- One question to a model, streamed, with the tools that it may call.
local function chat_policy(given, box)
    local ok, m = pcall(model.open, given.model)
    if not ok then
        return nil, (tostring(m):gsub("^.-model%.open: ", ""))
    end
    return policies.of("chat", { description = m.name, run = function(request)
        local params = request.params
        local reply, message, code = converse.run(m, { messages = request.messages,
            temperature = tonumber(params.temperature), top_p = tonumber(params.top_p),
            seed = request.seed, max_tokens = request.max_output_tokens,
            on_delta = function(text, kind)
                if kind == "reasoning" then
                    request:think(text)
                else
                    request:write(text)
                end
            end }, { tools = function() return box:current() end,
            on_tool = function(name, called_with)
                request:think(("calls %s %s\n"):format(name, called_with))
            end })
        if not reply then
            return nil, message, code
        end
        return request:text() == "" and reply.text or nil
    end })
end

local function load_policies(name, path)
    local chunk, message = files.load(path, "script")
    if not chunk then
        return nil, message
    end
    local ok, value = pcall(chunk)
    if not ok then
        return nil, tostring(value)
    end
    return policies.of(name, value)
end

-- What its file gives now, where the text has changed since; what cannot be read changes nothing.
local function reloader(name, path)
    local seen = files.read(path, "script")
    local current = {}
    return function(policy)
        return function()
            local text = files.read(path, "script")
            if text and text ~= seen then
                local list, message = load_policies(name, path)
                seen = text
                if not list then
                    io.stderr:write(("ponder: %s was not read again: %s\n"):format(path,
                        message))
                end
                for _, one in ipairs(list or {}) do
                    current[one.name] = one
                end
            end
            return current[policy.name]
        end
    end
end

local function file_policies(word, given)
    local name, path = word:match "^([%w_.-]+)=(.+)$"
    path = path or word
    name = name or path:match "([^/]+)$":gsub("%.lua$", "")
    if given.untrusted then
        local value, problem = confined.load(path, "policies", name, given)
        if not value then
            return nil, problem
        end
        return policies.of(name, value)
    end
    host.set_script_folder(path:match "^(.*)/[^/]*$" or ".")
    local list, message = load_policies(name, path)
    if list and given.reload then
        local reload = reloader(name, path)
        for _, policy in ipairs(list) do
            policy.reload = reload(policy)
        end
    end
    return list, message
end

---The policies that operands name.
---@param operands string[] FILE.lua, NAME=FILE.lua, tot, got, trm, cot, chat
---@param given table the flags: model, reload, and those of the strategies
---@return ponder.serve.Policy[]? list
---@return string? message
function shared.load(operands, given)
    local box, problem = toolbox.open(given)
    if not box then
        return nil, problem
    end
    local all = {}
    for _, word in ipairs(operands) do
        local list, message
        if STRATEGIES[word] then
            list, message = strategy_policy(word, given, box)
        elseif word == "chat" then
            list, message = chat_policy(given, box)
        else
            list, message = file_policies(word, given)
        end
        if not list then
            return nil, ("%s: %s"):format(word, message)
        end
        table.move(list, 1, #list, #all + 1, all)
    end
    return all
end

---What policies print goes where the server's own lines go: it is nothing for clients.
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

return shared
