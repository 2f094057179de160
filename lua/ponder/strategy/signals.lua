--- Signals in, directives out: what `s:signal` and `s:cmd` of a strategy do. See
--- ponder.strategy.class for the tables of both.

local json = require "ponder.json"
local options = require "ponder.options"

local signals = {}

-- Signal -> action; each strategy adds its own query, which is `start`.
local ROUTES = {
    ["ai.llm.response"] = "llm_result",
    ["ai.llm.delta"] = "llm_partial",
    ["ai.tool.result"] = "tool_result",
    ["ai.request.error"] = "request_error",
    ["ai.usage"] = "ignored",
}

---Which signal goes to which action.
---@param query string `"ai.tot.query"`
---@return table<string, string>
function signals.routes(query)
    local routes = { [query] = "start" }
    for name, action in pairs(ROUTES) do
        routes[name] = action
    end
    return routes
end

-------------------------------------------------------------------------------
-- Directives

-- Calls that ask the very same thing at the same time, such as votes, are samples 1, 2, 3...
local function sample_of(seen, directive)
    local key = json.encode(directive.context)
    seen[key] = (seen[key] or 0) + 1
    return seen[key]
end

---Directives of the machine as those of a strategy.
---@param s ponder.strategy.Strategy
---@param directives MachineDirective[]
---@return table[]
function signals.lift(s, directives)
    local lifted, seen = {}, {}
    for _, directive in ipairs(directives) do
        local role = s.kind.roles[directive.type]
        if role then
            lifted[#lifted + 1] = s.calls:open(directive, role, s:model_name(role),
                sample_of(seen, directive))
        elseif directive.type == "request_error" then
            lifted[#lifted + 1] = { type = "emit_request_error", request_id = directive.call_id,
                reason = directive.reason, message = directive.message }
        end
    end
    return lifted
end

-------------------------------------------------------------------------------
-- Actions

local function tell(self, message)
    local env, problem = self:env()
    if not env then
        error(("strategy.%s: %s"):format(self.kind.name, problem), 0)
    end
    local directives, events = self.machine:update(message, env)
    return signals.lift(self, directives), events
end

local actions = {}

function actions.start(self, params)
    return tell(self, { type = "start", prompt = params.prompt or params.query,
        call_id = params.call_id or self.kind.machine.generate_call_id() })
end

function actions.llm_result(self, params)
    local call = self.calls:find(params.call_id or params.id)
    if not call then
        return {}
    end
    local for_tools, usage = self.calls:reply(call, params)
    if for_tools then
        return for_tools
    end
    return tell(self, { type = self.kind.reply(call), call_id = call.call_id,
        ok = params.ok ~= false, text = params.text, reason = params.reason, usage = usage })
end

function actions.llm_partial(self, params)
    local call = self.calls:find(params.call_id or params.id)
    if not call then
        return {}
    end
    return tell(self, { type = "llm_partial", call_id = call.call_id, delta = params.delta,
        chunk_type = params.chunk_type })
end

function actions.tool_result(self, params)
    return { self.calls:tool_result(params.id or params.call_id, params.result) }
end

function actions.request_error(self, params)
    self.request_error = { request_id = params.request_id, reason = params.reason,
        message = params.message }
    return {}
end

function actions.ignored()
    return {}
end

local ACTION_NAMES = { "start", "llm_result", "llm_partial", "tool_result", "request_error",
    "ignored" }

---Does one action.
---@param s ponder.strategy.Strategy
---@param action string
---@param params table?
---@param level integer whose place an error carries: 1 is this function
---@return table[] directives
---@return MachineEvent[] events
function signals.act(s, action, params, level)
    local known = type(action) == "string" and actions[action]
    if not known then
        local near = options.nearest(action, ACTION_NAMES)
        error(("strategy.%s: unknown action %s%s"):format(s.kind.name, options.show(action),
            near and (" (did you mean %q?)"):format(near) or ""), level + 1)
    elseif params ~= nil and type(params) ~= "table" then
        error(("strategy.%s: the params of %s must be a table (got %s)"):format(s.kind.name,
            action, options.show(params)), level + 1)
    end
    local directives, events = known(s, params or {})
    return directives, events or {}
end

---The action of a signal; a signal without a route raises.
---@param s ponder.strategy.Strategy
---@param name any
---@param level integer
---@return string
function signals.action(s, name, level)
    local action = s.kind.routes[name]
    if action then
        return action
    end
    local names = {}
    for known in pairs(s.kind.routes) do
        names[#names + 1] = known
    end
    table.sort(names)
    local near = options.nearest(name, names)
    error(("strategy.%s: no route for the signal %s%s"):format(s.kind.name, options.show(name),
        near and (" (did you mean %q?)"):format(near) or ""), level + 1)
end

return signals
