--- The base of the three reasoning machines: `machine.class` makes the classes `ponder.tot`,
--- `ponder.got` and `ponder.trm`.
---
---     local machine = require("ponder.tot").new { branching_factor = 3 }
---     local directives, events =
---         machine:update { type = "start", prompt = "Why?", call_id = "c0" }
---
--- A machine does no I/O. `update` takes a message and returns directives, which say what to do
--- next (each has the id of a call, which the reply must carry), and events, which say what
--- happened (for telemetry).
---
--- Users hold a read-only handle; behind it is a Run (ponder.think.machine.run), a plain table of
--- the status, the open calls, the question and the fields of the class.
---
--- How a message is handled:
---
---     start        -> request_error if not idle, else class.begin(run, turn, msg)
---     llm_partial  -> run.streams
---     a reply      -> ignored unless its call is open and of a kind that this message answers
---          failed  -> run:fail
---          text    -> class.parse  -> class.accept, or class.unreadable where it returns nil
---          typed   -> class.read   -> class.accept
---
--- `turn` is one call of update: `{now, env, directives, events}`. An error in one of the user's
--- functions (a prompt, a parser, a stopping rule) ends the run (status `error`) and is raised.

local Run = require "ponder.think.machine.run"
local contexts = require "ponder.think.prompt.context"
local json = require "ponder.json"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local scheduler = require "ponder.run.task.scheduler"
local tally = require "ponder.base.tally"

local machine = {}

local show = options.show

---@class MachineMessage
---@field type string
---@field call_id string the call that this answers, or, in `start`, a name for the first call
---@field [string] any see the message table of the machine

---@class MachineEnv what may differ from one update to the next
---@field now_ms? number milliseconds of a monotonic clock; default: the host's
---@field prompts? table<string, function|string> override the machine's prompts
---@field context? fun(node: table): table[]? more messages for the call about a node

---@class MachineDirective
---@field type string
---@field call_id? string

---@class MachineEvent
---@field name string
---@field measurements table<string, number>
---@field metadata table<string, any>

---@class MachineClass
---@field name string `"tot"`
---@field steps string[][] for each status that is not final: it, what leads on from it (`on`), and
---the statuses that follow; besides, each busy one may lead to `error`
---@field options table<string, OptionRule> rules for `new`; common ones are added
---@field prompts table<string, string> name of a prompt -> the key of env that overrides only it
---@field env? table<string, OptionRule> further fields of `env`; the common rules are added
---@field replies table<string, string> message type -> kind of call that it answers (`llm_result`,
---which answers all, is implied)
---@field typed_replies_only? boolean `llm_result` answers none
---@field read table<string, fun(run, call, msg): any, string?> typed messages: the payload, or nil
---and which field is wrong (`thoughts must be a list (got nil)`); other messages carry text, as
---`llm_result` does
---@field bare_error? boolean `error{reason}` without a call id ends the run
---@field fields table<string, string|fun(run): any> machine.FIELD: a getter, or the name of a field
---of the run
---@field methods table<string, function> machine:METHOD(...); gets the run, then the arguments
---@field create fun(run) adds what the class needs to a new Run
---@field begin fun(run, turn, msg) start, on an idle machine
---@field parse fun(run, call, text): any the payload in a text, or nil
---@field accept fun(run, turn, call, payload)
---@field unreadable? fun(run, turn, call, text) if `parse` may return nil
---@field complete_event fun(run, turn): table, table measurements and metadata of its `complete`
---event, to which the common ones are added

-------------------------------------------------------------------------------
-- Messages

--- Runs a part of an update that may call the user's functions.
local function guarded(run, turn, call_id, f, ...)
    run.turn = turn
    local ok, problem = pcall(f, run, turn, ...)
    run.turn = nil
    if not ok then
        if run:is_busy() then
            run:fail(turn, call_id, problem)
        end
        error(problem, 0)
    end
end

local function start(run, turn, msg)
    if type(msg.call_id) ~= "string" then
        return
    end
    if run.status == "idle" then
        if type(msg.prompt) ~= "string" then
            error(("%s.update: msg.prompt must be a string (got %s)")
                :format(run.class.name, show(msg.prompt)), 3)
        end
        run.prompt = quote.utf8(msg.prompt)
        guarded(run, turn, msg.call_id, run.class.begin, msg)
        return
    end
    local reason = run:is_busy() and "busy" or "finished"
    run:add_directive(turn, { type = "request_error", call_id = msg.call_id, reason = reason,
        message = ("Agent is %s (status: %s)"):format(reason, run.status) })
end

local function add_chunk(run, msg)
    local delta, kind = msg.delta, msg.chunk_type
    if type(delta) ~= "string" or kind ~= nil and kind ~= "content"
        or not run.open[msg.call_id] then
        return
    end
    run.streams[msg.call_id] = run.streams[msg.call_id] or {}
    table.insert(run.streams[msg.call_id], quote.utf8(delta))
end

local function accept(run, turn, call, payload, text)
    if payload == nil then
        payload = run.class.parse(run, call, text)
    end
    if payload == nil then
        return run.class.unreadable(run, turn, call, text)
    end
    run.class.accept(run, turn, call, payload)
end

local function check_reply(run, call, msg)
    local read = run.class.read[msg.type]
    if read and msg.ok ~= false then
        local payload, problem = read(run, call, msg)
        if payload == nil then
            error(("%s.update: msg.%s"):format(run.class.name, problem), 4)
        end
        return payload
    elseif not read and type(msg.ok) ~= "boolean" then
        error(("%s.update: msg.ok must be a boolean (got %s)")
            :format(run.class.name, show(msg.ok)), 4)
    elseif msg.text ~= nil and type(msg.text) ~= "string" then
        error(("%s.update: msg.text must be a string (got %s)")
            :format(run.class.name, show(msg.text)), 4)
    end
end

local function handle_reply(run, turn, msg)
    local class, call = run.class, run.open[msg.call_id]
    if not call or class.replies[msg.type] ~= call.kind
        and (msg.type ~= "llm_result" or class.typed_replies_only) then
        return
    end
    local payload = check_reply(run, call, msg) -- raises before anything is changed
    local text = msg.text
    if text == nil or text == "" then
        text = run:streamed(call.id)
    end
    run.streams[call.id] = nil
    tally.add(run.usage, msg.usage, tally.amount)
    if msg.ok == false then
        run:fail(turn, call.id, msg.reason)
    else
        guarded(run, turn, call.id, accept, call, payload, quote.utf8(text))
    end
end

local ANYTHING = { type = "any" } -- callers may put other things into env

local function check_arguments(run, msg, env)
    local name = run.class.name
    if type(msg) ~= "table" then
        error(("%s.update: msg must be a table (got %s)"):format(name, show(msg)), 3)
    elseif env ~= nil and type(env) ~= "table" then
        error(("%s.update: env must be a table (got %s)"):format(name, show(env)), 3)
    elseif run.turn then
        error(("%s.update: called while update is running"):format(name), 3)
    end
    for key, value in pairs(env or {}) do
        local rule = run.class.env[key]
        local _, problem = options.check_value(value, rule or ANYTHING)
        if problem then
            error(("%s.update: env.%s %s"):format(name, key, problem), 3)
        end
    end
    local problem = env and contexts.problem(run.class.prompts, env.prompts)
    if problem then
        error(("%s.update: env: %s"):format(name, problem), 3)
    end
end

local NO_ENV = {}

---Handles a message: changes the machine and returns what to do next.
---@param msg MachineMessage
---@param env? MachineEnv
---@return MachineDirective[] directives
---@return MachineEvent[] events
local function update(run, msg, env)
    check_arguments(run, msg, env)
    env = env or NO_ENV
    local turn = { now = env.now_ms or scheduler.now() * 1000, env = env, directives = {},
        events = {} }
    if msg.type == "start" then
        start(run, turn, msg)
    elseif msg.type == "llm_partial" then
        add_chunk(run, msg)
    elseif msg.type == "error" and run.class.bare_error then
        if run:is_busy() then
            run:fail(turn, run:current_call().id, msg.reason)
        end
    else
        handle_reply(run, turn, msg)
    end
    return turn.directives, turn.events
end

-------------------------------------------------------------------------------
-- Classes

local COMMON_OPTIONS = options.merge({
    prompts = { type = "table", help = "prompt functions or instructions by name" },
}, contexts.OPTIONS)

local COMMON_ENV = {
    now_ms = { type = "number", finite = true },
    prompts = { type = "table" },
    context = { type = "function" },
}
local ONE_PROMPT = { type = { "function", "string" } }

local function current_call_id(run)
    local call = run:current_call()
    return call and call.id
end

local common_fields = {
    status = "status",
    prompt = "prompt",
    current_call_id = current_call_id,
    termination_reason = "reason",
    streaming_text = function(run) return run:streamed(current_call_id(run)) end,
    usage = Run.usage_copy,
    started_at = "started",
    duration_ms = Run.duration,
    error = "error",
}

local function make_metatable(class)
    local methods, fields = class.methods, class.fields
    return {
        __name = "ponder." .. class.name,
        __metatable = false,
        __index = function(handle, name)
            local method = methods[name]
            if method then
                return method
            end
            local run = rawget(handle, "_run")
            local field = fields[name]
            if field then
                return field(run)
            end
            return run.options[name]
        end,
        __newindex = function(_, name)
            error(("%s: the fields of a machine are read-only (%s)")
                :format(class.name, show(name)), 2)
        end,
    }
end

--- Methods get the run instead of the handle.
local function as_method(class, name, f)
    return function(handle, ...)
        local run = type(handle) == "table" and rawget(handle, "_run")
        if not run or run.class ~= class then
            error(("%s: call %s with a colon, on a machine"):format(class.name, name), 2)
        end
        return f(run, ...)
    end
end

local function check_between_updates(run, what)
    if run.turn then
        error(("%s.%s: called while update is running")
            :format(run.class.name, what), 3)
    end
end

local function new_run(class, checked)
    local run = Run.new(class, checked)
    class.create(run)
    return run
end

-- What `new` makes, and what lives for one update.
local LEFT_OUT = { class = true, options = true, prompts = true, turn = true, min_nodes = true }

-- The state of a run as plain data, by way of JSON: whoever keeps the data will write it as such.
local function save(run)
    local saved = {}
    for name, value in next, run do
        saved[name] = not LEFT_OUT[name] and value or nil
    end
    return json.decode(json.encode(saved))
end

-- Puts a saved state into a new run; raises where it is not one.
local function load(run, saved)
    saved = json.decode(json.encode(saved))
    for name in next, run do
        assert(LEFT_OUT[name] or saved[name] ~= nil, "it lacks " .. name)
    end
    for name, value in next, saved do
        run[name] = not LEFT_OUT[name] and value or run[name]
    end
    assert(run.class.statuses[run.status], "it has an unknown status")
    for _, getter in pairs(run.class.fields) do
        getter(run) -- reads all that it has
    end
end

local function clone(run)
    check_between_updates(run, "clone")
    local copy = new_run(run.class, run.options)
    load(copy, save(run))
    return copy:handle()
end

local function to_map(run)
    check_between_updates(run, "to_map")
    local map = { machine = run.class.name, status = run.status, state = save(run),
        calls = json.array {} } -- those that are open, oldest first
    for i, call in ipairs(run:open_calls()) do
        map.calls[i] = { id = call.id, kind = call.kind }
    end
    for name, value in pairs(run.options) do
        if type(value) ~= "function" and name ~= "prompts" then
            map[name] = value
        end
    end
    for name, prompt in pairs(run.prompts) do
        if type(prompt) == "string" then
            map.prompts = map.prompts or {}
            map.prompts[name] = prompt
        end
    end
    return map
end

local function check_opts(class, where, opts)
    local checked = options.check(where, opts, class.options, 4)
    local problem = contexts.problem(class.prompts, checked.prompts)
    if problem then
        error(("%s: %s"):format(where, problem), 4)
    end
    return checked
end

-- The machine of a map, whose options are checked as in new; `opts` overrides them.
local function from_map(class, map, opts)
    local where, merged = class.name .. ".from_map", {}
    if type(map) ~= "table" then
        error(("%s: map must be a table (got %s)"):format(where, show(map)), 3)
    elseif map.machine ~= class.name then
        error(("%s: map.machine must be %q (got %s)"):format(where, class.name, show(map.machine)),
            3)
    end
    for name, rule in pairs(class.options) do
        if rule.type ~= "function" then
            merged[name] = map[name]
        end
    end
    local run = new_run(class, check_opts(class, where, options.merge(merged, opts)))
    local ok, problem = pcall(load, run, map.state)
    if not ok then
        error(("%s: map.state must be what to_map gave: %s"):format(where,
            tostring(problem):gsub("^[^:]*:%d+: ", "")), 3)
    end
    return run:handle()
end

-- The defaults, overwritten by what a class has; names of fields become getters.
local function completed(own, defaults)
    local all = options.merge(options.merge({}, defaults), own)
    for name, field in pairs(all) do
        all[name] = type(field) == "string" and function(run) return run[field] end or field
    end
    return all
end

-- Sets the statuses of a class. Returns its transitions, {from, to, on}.
local function read_steps(class)
    local moves = {}
    class.statuses = { completed = true, error = true }
    for _, step in ipairs(class.steps) do
        class.statuses[step[1]] = true
        for i = 3, #step do
            moves[#moves + 1] = { from = step[1], to = step[i], on = step[2] }
        end
    end
    for i = 2, #class.steps do
        moves[#moves + 1] = { from = class.steps[i][1], to = "error", on = "error" }
    end
    return moves
end

---Answers the old names of a library by an error.
---@param name string of the library
---@param library table
---@param gone table<string, string> old name -> what to use instead
---@package
function machine.without(name, library, gone)
    setmetatable(library, { __index = function(_, key)
        if gone[key] then
            error(("%s.%s is gone: use %s"):format(name, key, gone[key]), 2)
        end
    end })
end

local last_id = 0

---Makes a class of machines, and its library of public functions. The description becomes the
---class.
---@param class MachineClass
---@return table library
function machine.class(class)
    class.read = class.read or {}
    class.options = completed(class.options, COMMON_OPTIONS)
    class.fields = completed(class.fields, common_fields)
    class.env = completed(class.env, COMMON_ENV)
    for _, key in pairs(class.prompts) do
        class.env[key] = ONE_PROMPT
    end
    class.methods = completed(class.methods, { update = update, clone = clone, to_map = to_map })
    for name, f in pairs(class.methods) do
        class.methods[name] = as_method(class, name, f)
    end
    class.metatable = make_metatable(class)
    return { -- scripts/reference describes these
        ---An idle machine.
        new = function(opts)
            local made = new_run(class, check_opts(class, class.name .. ".new", opts)):handle()
            return made
        end,
        ---The machine that `to_map` saved, in any state.
        from_map = function(map, opts)
            local machine_of_map = from_map(class, map, opts) -- no tail call: it has a level
            return machine_of_map
        end,
        ---A call id, unique in this process.
        generate_call_id = function()
            last_id = last_id + 1
            return "call_" .. last_id
        end,
        ---The status transitions: a list of {from, to, on}.
        transitions = read_steps(class),
        ---The rules of its options.
        option_rules = class.options,
        ---Its prompts: name -> the option that overrides only that one.
        prompt_names = class.prompts,
    }
end

return machine
