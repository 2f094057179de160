--- The model calls that a strategy has outstanding, and their round trips through tools. No I/O:
--- replies and results of tools come in, directives and finished replies come out.
---
--- The machine knows one call by one id. A reply that asks for tools is not handed to it; each tool
--- becomes a `call_tool`, and when all results are there the model is called again, with them at
--- the end of its messages, under an id of its own (`c4`, then `c4.1`, `c4.2`...), so that a reply
--- that comes twice cannot count twice.
---
---     call_model --reply without tools----------------------------> finished
---     call_model --reply with tools--> call_tool... --last result--> call_model
---
--- When `max_tool_round_trips` are used up the model is asked not to use tools, and what it says
--- then counts, tools or not.

local options = require "ponder.options"
local tally = require "ponder.tally"

local calls = {}

---@class ponder.strategy.Call what is known of one outstanding call; plain, JSON-ready
---@field id string of the request that is under way
---@field call_id string by which the machine knows it
---@field kind string the machine's directive
---@field role string
---@field messages ponder.model.Message[]
---@field sample integer
---@field round integer round trips through tools so far
---@field usage table<string, number> of its earlier requests
---@field waiting integer tools that have not answered
---@field results (string|false)[] of its tools, in the order asked

local Calls = {}
Calls.__index = Calls

---@param tools table[] as the user gave them
---@param limits {timeout_ms: integer, max_tool_round_trips: integer}
---@param saved? ponder.strategy.Call[]
function calls.new(tools, limits, saved)
    local self = setmetatable({ tools = tools, limits = limits, order = 0, by_id = {} }, Calls)
    for _, call in ipairs(saved or {}) do
        self:keep(call)
    end
    return self
end

function Calls:keep(call)
    self.order = self.order + 1
    call.order = self.order
    self.by_id[call.id] = call
end

---All that are outstanding, the oldest first.
---@return ponder.strategy.Call[]
function Calls:list()
    local list = {}
    for _, call in pairs(self.by_id) do
        list[#list + 1] = call
    end
    table.sort(list, function(a, b)
        return a.order < b.order
    end)
    return list
end

-- Without `run`: what a model is told.
local function described(tools)
    local list = {}
    for i, tool in ipairs(tools) do
        list[i] = { name = tool.name, description = tool.description, parameters = tool.parameters }
    end
    return list
end

function Calls:ask(call, model)
    local directive = {
        type = "call_model", id = call.id, call_id = call.call_id, kind = call.kind,
        node_id = call.node_id, role = call.role, model = model, messages = call.messages,
        sample = call.sample, timeout_ms = self.limits.timeout_ms,
    }
    if #self.tools > 0 then
        directive.tools = described(self.tools)
        if call.round >= self.limits.max_tool_round_trips then
            directive.tool_choice = "none"
        end
    end
    return directive
end

---A new call.
---@param directive MachineDirective
---@param role string
---@param model string
---@param sample integer which of several equal calls
---@return table call_model
function Calls:open(directive, role, model, sample)
    local call = {
        id = directive.call_id, call_id = directive.call_id, kind = directive.type, role = role,
        messages = directive.context, sample = sample, round = 0, usage = {}, waiting = 0,
        results = {}, model = model, node_id = directive.node_id,
    }
    self:keep(call)
    return self:ask(call, model)
end

---The outstanding call with that id that waits for a reply.
---@return ponder.strategy.Call?
function Calls:find(id)
    local call = self.by_id[id]
    return call and call.waiting == 0 and call or nil
end

-- The assistant's turn, as it must stand before its tools' results.
local function turn_of(data)
    local message = data.message
    if type(message) == "table" and type(message.role) == "string" then
        return message
    end
    return { role = "assistant", content = data.text or "", tool_calls = data.tool_calls }
end

local function next_messages(call, message)
    local messages = table.move(call.messages, 1, #call.messages, 1, {})
    messages[#messages + 1] = message
    return messages
end

-- Ids that a model did not give, or gave twice, are made: each result must find its place.
local function with_ids(call, tool_calls)
    local list, used = {}, {}
    for i, asked in ipairs(tool_calls) do
        local id = asked.id
        if type(id) ~= "string" or id == "" or used[id] then
            id = ("%s.tool%d"):format(call.id, i)
        end
        used[id] = true
        list[i] = { id = id, name = tostring(asked.name), arguments = asked.arguments,
            arguments_json = asked.arguments_json }
    end
    return list
end

local function ask_for_tools(call, data)
    local asked = with_ids(call, data.tool_calls)
    local turn = options.merge({}, turn_of(data))
    turn.tool_calls = asked
    tally.add(call.usage, data.usage)
    call.messages = next_messages(call, turn)
    call.waiting, call.results, call.asked = #asked, {}, asked
    local directives = {}
    for i, tool in ipairs(asked) do
        call.results[i] = false
        directives[i] = {
            type = "call_tool", id = ("%s/%d"):format(call.id, i), call_id = call.call_id,
            name = tool.name, arguments = tool.arguments, arguments_json = tool.arguments_json,
        }
    end
    return directives
end

---What a model replied.
---@param call ponder.strategy.Call one that `find` gave
---@param data table {ok, text, usage, tool_calls, message}
---@return table[]? directives tools to call; nil: the reply is the machine's
---@return table<string, number> usage of all its requests, once it is
function Calls:reply(call, data)
    local wants = type(data.tool_calls) == "table" and #data.tool_calls > 0
    if wants and data.ok ~= false and #self.tools > 0
        and call.round < self.limits.max_tool_round_trips then
        return ask_for_tools(call, data), call.usage
    end
    self.by_id[call.id] = nil
    tally.add(call.usage, data.usage)
    return nil, call.usage
end

-- "c4.1/2" -> the call "c4.1" and the place 2
local function place_of(self, id)
    local call_id, place = tostring(id):match("^(.*)/(%d+)$")
    local call = self.by_id[call_id]
    place = math.tointeger(tonumber(place))
    if call and place and call.results[place] == false then
        return call, place
    end
end

---What a tool gave.
---@param id string of the call_tool directive
---@param text string
---@return table? call_model once all of its call's tools have answered
function Calls:tool_result(id, text)
    if type(text) ~= "string" then
        error("strategy: the result of a tool must be a string (got " .. options.show(text) .. ")",
            0)
    end
    local call, place = place_of(self, id)
    if not call then
        return nil
    end
    call.results[place] = text
    call.waiting = call.waiting - 1
    if call.waiting > 0 then
        return nil
    end
    for i, result in ipairs(call.results) do
        call.messages[#call.messages + 1] = { role = "tool", tool_call_id = call.asked[i].id,
            name = call.asked[i].name, content = result }
    end
    self.by_id[call.id] = nil
    call.round = call.round + 1
    call.id = ("%s.%d"):format(call.call_id, call.round)
    call.results, call.asked = {}, nil
    self:keep(call)
    return self:ask(call, call.model)
end

return calls
