--- What the three reasoning machines have in common: `ponder.tot`, `ponder.got` and `ponder.trm`
--- are each a class made by `machine.class`.
---
---     local machine = tot.new { branching_factor = 3 }
---     local directives, events =
---         machine:update({ type = "start", prompt = p, call_id = "c0" }, env)
---
--- A machine does no I/O. `update` takes a message and returns what should happen (directives, each
--- with the id of the call that a reply must carry) and what did (events, for telemetry).
---
--- Who does what.  The C core of a class (`ponder.core.NAME`, a userdata) owns the state: status
--- and moves, call ids, which calls are open, nodes, frontier. Lua owns text and policy: contents,
--- parsers, prompts, the tables that go in and out. What a user holds is a handle that can only be
--- read; behind it is a Run, a plain table:
---
---     run.class     the class description (below)      run.core     the C core
---     run.options   the checked options                run.prompts  the user's prompt functions
---     run.prompt    what start brought                 run.usage    counts added up
---     run.streams   chunks by call id                  run.reason   termination_reason
---     run.error     why it failed, one safe line       ...          what the class adds
---
--- A message goes this way:
---
---     start        -> request_error if not idle, else class.begin(run, turn, msg)
---     llm_partial  -> run.streams
---     a reply      -> dropped unless its call is open and of a kind that this message answers
---          failed  -> run:fail
---          text    -> class.parse  -> class.accept, or class.unreadable where it returns nil
---          typed   -> class.read   -> class.accept
---
--- `turn` is one call of update: `{now, env, directives, events}`. An error in a function of the
--- user's (a prompt, a parser, a stopping rule) ends the run (status `error`) and is raised.

local core = require "ponder.core.machine"
local Run = require "ponder.machine.run"
local map_of = require "ponder.machine.map"
local options = require "ponder.options"
local quote = require "ponder.quote"
local tally = require "ponder.tally"

local machine = {}

local show = options.show

---@class MachineMessage
---@field type string
---@field call_id string the call that this answers, or, in `start`, a name for the first call
---@field [string] any see the message table of the machine

---@class MachineEnv what may differ from one update to the next; all of it may be absent
---@field now_ms? number milliseconds by any clock that does not go back; default: the host's
---@field prompts? table<string, function|string> takes the place of the machine's prompts
---@field context? fun(node: table): table[]? more messages for one node's call

---@class MachineDirective
---@field type string
---@field call_id? string

---@class MachineEvent
---@field name string
---@field measurements table<string, number>
---@field metadata table<string, any>

---@class MachineClass
---@field name string `"tot"`
---@field core table the library of the C core: `new(options)`, `transitions`
---@field options table<string, OptionRule> rules for `new`; common ones are added
---@field check_options? fun(checked): string? what is wrong with the options together; it may
---change them
---@field prompts table<string, string> name of a prompt -> the key of env that overrides it alone
---@field env? table<string, OptionRule> what else `env` may say; the common rules are added
---@field replies table<string, string[]> message type -> kinds of call that it answers
---(`llm_result`, which answers all, need not be named)
---@field typed_replies_only? boolean `llm_result` answers none
---@field read table<string, fun(run, call, msg): any, string?> typed messages: the payload, or nil
---and what was wrong with which field (`thoughts must be a list (got nil)`); a reply type without
---one carries text, as `llm_result` does
---@field bare_error? boolean `error{reason}` without a call id ends the run
---@field fields table<string, fun(run): any> what reads as machine.FIELD
---@field methods table<string, function> machine:METHOD(...); gets the run, then the arguments
---@field create fun(run) adds what the class needs to a new Run
---@field begin fun(run, turn, msg) start, on an idle machine
---@field parse fun(run, call, text): any the payload in a text, or nil
---@field accept fun(run, turn, call, payload)
---@field unreadable? fun(run, turn, call, text) default: the run fails
---@field complete_event fun(run, turn): table, table measurements and metadata of its `complete`
---event, to which the common ones are added
---@field copy fun(run, copy) clone: what create added
---@field save fun(run, map) to_map: adds the class's fields
---@field load fun(run, reader) from_map: reads them; the C core has its calls by then

-------------------------------------------------------------------------------
-- Messages

--- Runs a part of an update that may call functions of the user's.
local function guarded(run, turn, call_id, f, ...)
    run.turn = turn
    local ok, problem = pcall(f, run, turn, ...)
    run.turn = nil
    if not ok then
        if run.core:is_busy() then
            run:fail(turn, call_id, problem)
        end
        error(problem, 0)
    end
end

local function start(run, turn, msg)
    if type(msg.call_id) ~= "string" then
        return
    end
    local core_state = run.core
    if core_state:status() == "idle" then
        if type(msg.prompt) ~= "string" then
            error(("%s.update: msg.prompt must be a string (got %s)")
                :format(run.class.name, show(msg.prompt)), 3)
        end
        run.prompt = quote.utf8(msg.prompt)
        guarded(run, turn, msg.call_id, run.class.begin, msg)
        return
    end
    local busy = core_state:is_busy()
    run:direct(turn, {
        type = "request_error",
        call_id = msg.call_id,
        reason = busy and "busy" or "finished",
        message = ("Agent is %s (status: %s)"):format(busy and "busy" or "finished",
            core_state:status()),
    })
end

local function partial(run, msg)
    local delta, kind = msg.delta, msg.chunk_type
    if type(delta) ~= "string" or kind ~= nil and kind ~= "content"
        or not run.core:find_call(msg.call_id) then
        return
    end
    local chunks = run.streams[msg.call_id]
    if chunks == nil then
        chunks = {}
        run.streams[msg.call_id] = chunks
    end
    chunks[#chunks + 1] = quote.utf8(delta)
end

local function take_text(run, turn, call, text)
    local payload = run.class.parse(run, call, text)
    if payload ~= nil then
        run.class.accept(run, turn, call, payload)
    elseif run.class.unreadable then
        run.class.unreadable(run, turn, call, text)
    else
        run:fail(turn, call.id, "unreadable reply")
    end
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

local function reply(run, turn, msg)
    local answers = run.class.answers[msg.type]
    local kind, subject = run.core:find_call(msg.call_id)
    if not answers or not answers[kind] then
        return
    end
    local call = { id = msg.call_id, kind = kind, subject = subject }
    local payload = check_reply(run, call, msg) -- raises before anything is changed
    local text = msg.text
    if text == nil or text == "" then
        text = run:streamed(call.id)
    end
    run.streams[call.id] = nil
    tally.add(run.usage, msg.usage, tally.amount)
    if msg.ok == false then
        run:fail(turn, call.id, msg.reason)
    elseif payload ~= nil then
        guarded(run, turn, call.id, run.class.accept, call, payload)
    else
        guarded(run, turn, call.id, take_text, call, quote.utf8(text))
    end
end

local ANYTHING = { type = "any" } -- env may carry what is for somebody else

local function check_arguments(run, msg, env)
    local name = run.class.name
    if type(msg) ~= "table" then
        error(("%s.update: msg must be a table (got %s)"):format(name, show(msg)), 3)
    elseif env ~= nil and type(env) ~= "table" then
        error(("%s.update: env must be a table (got %s)"):format(name, show(env)), 3)
    elseif run.turn then
        error(("%s.update: called by a function that update is calling"):format(name), 3)
    end
    for key, value in pairs(env or {}) do
        local rule = run.class.env[key]
        local _, problem = options.check_value(value, rule or ANYTHING)
        if problem then
            error(("%s.update: env.%s %s"):format(name, key, problem), 3)
        end
    end
    local problem = env and Run.check_prompts(name .. ".update: env", run.class, env.prompts)
    if problem then
        error(problem, 3)
    end
end

local NO_ENV = {}

---Takes a message: changes the machine and says what should happen.
---@param msg MachineMessage
---@param env? MachineEnv
---@return MachineDirective[] directives
---@return MachineEvent[] events
local function update(run, msg, env)
    check_arguments(run, msg, env)
    env = env or NO_ENV
    local turn = { -- the lists are made when there is something to put in
        now = env.now_ms or core.clock_ms(), env = env, directives = nil, events = nil,
    }
    if msg.type == "start" then
        start(run, turn, msg)
    elseif msg.type == "llm_partial" then
        partial(run, msg)
    elseif msg.type == "error" and run.class.bare_error then
        if run.core:is_busy() then
            run:fail(turn, (run.core:current_call()), msg.reason)
        end
    else
        reply(run, turn, msg)
    end
    return turn.directives or {}, turn.events or {}
end

-------------------------------------------------------------------------------
-- Classes

local COMMON_OPTIONS = {
    prompts = { type = "table" },
    max_text_bytes = { type = "integer", min = 100, max = 10000000, default = 20000,
        help = "of each quoted text but the question: of a longer one the beginning" },
}

local COMMON_ENV = {
    now_ms = { type = "number", finite = true },
    prompts = { type = "table" },
    context = { type = "function" },
}
local ONE_PROMPT = { type = { "function", "string" } }

local common_fields = {
    status = function(run)
        return run.core:status()
    end,
    prompt = function(run)
        return run.prompt
    end,
    current_call_id = function(run)
        return (run.core:current_call())
    end,
    termination_reason = function(run)
        return run.reason
    end,
    streaming_text = function(run)
        return run:streamed((run.core:current_call()))
    end,
    usage = Run.usage_copy,
    started_at = function(run)
        return run.core:started_at()
    end,
    duration_ms = function(run)
        return run:duration()
    end,
    error = function(run)
        return run.error
    end,
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
            error(("%s: the fields of a machine can only be read (%s)")
                :format(class.name, show(name)), 2)
        end,
    }
end

local function wrap(class, run)
    return setmetatable({ _run = run }, class.metatable)
end

--- Methods get the run in place of the handle.
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
        error(("%s.%s: called by a function that update is calling")
            :format(run.class.name, what), 3)
    end
end

local function clone(run)
    check_between_updates(run, "clone")
    local class = run.class
    local copy = Run.new(class, run.options, run.core:clone())
    copy.prompts, copy.prompt, copy.reason, copy.error =
        run.prompts, run.prompt, run.reason, run.error
    copy.usage = run:usage_copy()
    for id in pairs(run.streams) do
        copy.streams[id] = { run:streamed(id) }
    end
    class.copy(run, copy)
    return wrap(class, copy)
end

local function to_map(run)
    check_between_updates(run, "to_map")
    local map = {}
    for name, value in pairs(run.options) do
        if type(value) ~= "function" and name ~= "prompts" then
            map[name] = value
        end
    end
    map_of.save(run, map) -- prompts too, those that are text
    run.class.save(run, map)
    return map
end

local function check_opts(class, where, opts)
    local checked = options.check(where, opts, class.options, 3)
    local problem = Run.check_prompts(where, class, checked.prompts)
    local unfit = not problem and class.check_options and class.check_options(checked)
    if problem or unfit then
        error(problem or where .. ": " .. unfit, 3)
    end
    return checked
end

local function new(class, opts)
    local checked = check_opts(class, class.name .. ".new", opts)
    local run = Run.new(class, checked, class.core.new(checked))
    class.create(run)
    return wrap(class, run)
end

--- The options of a map, each checked as in new; those of `opts` come before them.
local function map_options(class, reader, opts)
    local merged = {}
    for name, rule in pairs(class.options) do
        local value = reader.map[name]
        if value ~= nil and rule.type ~= "function" then
            merged[name] = reader:check(name, value, rule)
        end
    end
    local problem = Run.check_prompts(reader.where .. ": map", class, merged.prompts)
    if problem then
        error(problem, 0)
    end
    options.merge(merged, opts)
    return merged
end

local function from_map(class, map, opts)
    local where = class.name .. ".from_map"
    if type(map) ~= "table" then
        error(("%s: map must be a table (got %s)"):format(where, show(map)), 2)
    end
    check_opts(class, where, opts)
    local reader = map_of.reader(where, map)
    local ok, problem = pcall(function()
        local checked = options.check(where, map_options(class, reader, opts or {}), class.options)
        local unfit = class.check_options and class.check_options(checked)
        if unfit then
            error(where .. ": " .. unfit, 0)
        end
        local run = Run.new(class, checked, class.core.new(checked))
        class.create(run)
        map_of.load(run, reader)
        class.load(run, reader)
        return wrap(class, run)
    end)
    if not ok then
        error(problem, 2)
    end
    return problem
end

local function fill(target, defaults)
    for name, value in pairs(defaults) do
        if target[name] == nil then
            target[name] = value
        end
    end
end

local function index_replies(class)
    local any = {}
    class.answers = { llm_result = not class.typed_replies_only and any or nil }
    for message, kinds in pairs(class.replies) do
        class.answers[message] = {}
        for _, kind in ipairs(kinds) do
            class.answers[message][kind] = true
            any[kind] = true
        end
    end
end

---Makes a class of machines and the public functions that all have: `new`, `from_map`,
---`generate_call_id`. The description becomes the class.
---@param class MachineClass
---@return table library
function machine.class(class)
    class.read = class.read or {}
    fill(class.options, COMMON_OPTIONS)
    fill(class.fields, common_fields)
    class.env = class.env or {}
    fill(class.env, COMMON_ENV)
    for _, key in pairs(class.prompts) do
        class.env[key] = ONE_PROMPT
    end
    index_replies(class)
    fill(class.methods, { update = update, clone = clone, to_map = to_map })
    for name, f in pairs(class.methods) do
        class.methods[name] = as_method(class, name, f)
    end
    class.metatable = make_metatable(class)
    return {
        ---An idle machine.
        ---@param opts table? see the options of the class; a wrong or unknown one raises
        ---@return table machine
        new = function(opts)
            return new(class, opts)
        end,
        ---The machine that `to_map` saved, in whatever state; a wrong field raises, by its name.
        ---@param map table
        ---@param opts table? options that come before those of the map, above all functions
        ---@return table machine
        from_map = function(map, opts)
            return from_map(class, map, opts)
        end,
        ---A call id that this process makes once.
        ---@return string
        generate_call_id = function()
            return core.unique_id("call_")
        end,
        ---The moves of the status, as the core has them: a list of {from, to, on}.
        transitions = class.core.transitions,
        ---The rules of its options, for those who pass options on.
        option_rules = class.options,
        check_options = class.check_options,
        ---Its prompts: name -> the option that stands for that one alone.
        prompt_names = class.prompts,
    }
end

return machine
