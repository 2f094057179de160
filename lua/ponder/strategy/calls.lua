--- The outstanding model calls of a strategy, and their round trips through tools. No I/O: replies
--- and tool results come in, directives and finished replies come out.
---
--- The machine knows a call by one id. It does not see replies that ask for tools: each tool
--- becomes a `call_tool`, and once all results are there the model is called again with the results
--- appended to its messages. Each such request has its own id (`c4`, then `c4.1`, `c4.2`...), so
--- that a duplicate reply is not counted twice.
---
---     call_model --reply without tools----------------------------> finished
---     call_model --reply with tools--> call_tool... --last result--> call_model
---
--- After `max_tool_round_trips` the model is asked not to use tools, and its reply is final.

local json = require "ponder.json"
local options = require "ponder.options"
local tally = require "ponder.tally"

local calls = {}

---@class ponder.strategy.Call an outstanding call; plain, JSON-ready
---@field id string of its current request
---@field call_id string of the machine
---@field kind string the machine's directive
---@field role string
---@field messages ponder.model.Message[]
---@field sample integer which of several equal calls
---@field round integer round trips through tools so far
---@field usage table<string, number> of its earlier requests
---@field waiting integer tools without a result
---@field results (string|false)[] of its tools, in the order requested

local Calls = {}
Calls.__index = Calls

---@param tools table[] as the user gave them
---@param limits {timeout_ms: integer, max_tool_round_trips: integer}
---@param saved? ponder.strategy.Call[]
function calls.new(tools, limits, saved)
    local self = setmetatable({ tools = tools, limits = limits, order = 0, by_id = {} }, Calls)
    for _, call in ipairs(saved or {}) do
        self:add(call)
    end
    return self
end

---The sample number of a call: equal calls of a turn, such as votes, are samples 1, 2, 3...
---@param seen table<string, integer> counts so far; changed
---@param messages ponder.model.Message[]
---@return integer
function calls.next_sample(seen, messages)
    local key = json.encode(messages)
    seen[key] = (seen[key] or 0) + 1
    return seen[key]
end

function Calls:add(call)
    self.order = self.order + 1
    call.order = self.order
    self.by_id[call.id] = call
end

---All outstanding calls, oldest first.
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

-- The tools as the model sees them.
local function tool_descriptions(tools)
    local list = {}
    for i, tool in ipairs(tools) do
        list[i] = { name = tool.name, description = tool.description, parameters = tool.parameters }
    end
    return list
end

function Calls:request(call, model)
    local directive = {
        type = "call_model", id = call.id, call_id = call.call_id, kind = call.kind,
        node_id = call.node_id, role = call.role, model = model, messages = call.messages,
        sample = call.sample, timeout_ms = self.limits.timeout_ms,
    }
    if #self.tools > 0 then
        directive.tools = tool_descriptions(self.tools)
        if call.round >= self.limits.max_tool_round_trips then
            directive.tool_choice = "none"
        end
    end
    return directive
end

---Adds a call.
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
    self:add(call)
    return self:request(call, model)
end

---The call with that id, if it waits for a reply.
---@return ponder.strategy.Call?
function Calls:find(id)
    local call = self.by_id[id]
    return call and call.waiting == 0 and call or nil
end

-- The assistant's message of a reply.
local function assistant_message(data)
    local message = data.message
    if type(message) == "table" and type(message.role) == "string" then
        return message
    end
    return { role = "assistant", content = data.text or "", tool_calls = data.tool_calls }
end

-- The tool calls with unique ids: invents those that the model omitted or repeated.
local function with_unique_ids(call, tool_calls)
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
    local asked = with_unique_ids(call, data.tool_calls)
    local message = options.merge({}, assistant_message(data))
    message.tool_calls = asked
    tally.add(call.usage, data.usage)
    call.messages = table.move(call.messages, 1, #call.messages, 1, {})
    table.insert(call.messages, message)
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

---Handles a reply.
---@param call ponder.strategy.Call from `find`
---@param data table {ok, text, usage, tool_calls, message}
---@return table[]? directives tools to call; nil: the reply is final
---@return table<string, number> usage of all its requests so far
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

-- "c4.1/2" -> the call "c4.1" and the index 2, if that result is missing.
local function find_tool_call(self, id)
    local call_id, index = tostring(id):match("^(.*)/(%d+)$")
    local call = self.by_id[call_id]
    index = math.tointeger(tonumber(index))
    if call and index and call.results[index] == false then
        return call, index
    end
end

---Handles the result of a tool.
---@param id string of the call_tool directive
---@param text string
---@return table? call_model once all tools of the call have results
function Calls:tool_result(id, text)
    options.argument("strategy", "the result of a tool", text, "string", 0)
    local call, index = find_tool_call(self, id)
    if not call then
        return nil
    end
    call.results[index] = text
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
    self:add(call)
    return self:request(call, call.model)
end

return calls
