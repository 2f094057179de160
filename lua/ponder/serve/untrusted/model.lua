--- ponder.model for scripts under --untrusted: the parent makes the calls, to the models that
--- --allow-model names, within its budget.

local options = require "ponder.base.options"
local parent = require "ponder.serve.untrusted.parent"
local read = require "ponder.model.read"

local model = {}

local names, allowed = {}, {}

local Model = {}
Model.__index = Model
Model.__name = "ponder.model.Model"
Model.__tostring = function(self) return "model " .. self.name end

local function data_of(fields)
    local data = {}
    for name, value in pairs(fields) do
        if type(value) ~= "function" then
            data[name] = value
        end
    end
    return data
end

-- Options for the parent's own client and middleware, without effect here.
local OWN = { "metadata", "concurrency", "adaptive", "requests_per_minute", "tokens_per_minute" }

-- Functions stay in this process: the parent receives only data.
local function without_functions(opts)
    local call = data_of(opts)
    for _, name in ipairs(OWN) do
        call[name] = nil
    end
    if type(call.tools) == "table" then
        local tools = {}
        for i, tool in ipairs(call.tools) do
            tools[i] = data_of(type(tool) == "table" and tool or {})
        end
        call.tools = tools
    end
    return call
end

---See ponder.model. A reply arrives whole: `on_delta` is called once.
function Model:chat(opts)
    options.argument("model.chat", "opts", opts, "table")
    local call = options.merge({}, self.defaults)
    options.merge(call, without_functions(opts))
    local answer = parent.ask("chat", { model = self.name, call = call })
    if answer.raised then
        error(answer.raised, 2)
    elseif not answer.reply then
        return nil, answer.message, answer.code, answer.partial
    end
    if opts.on_delta then
        opts.on_delta(answer.reply.text, "text", 1, answer.reply.logprobs)
    end
    return answer.reply
end

---See ponder.model.
function Model:complete(prompt, opts)
    options.argument("model.complete", "prompt", prompt, "string")
    local call = { messages = { { role = "user", content = prompt } } }
    options.merge(call, opts)
    local reply, message, code, partial = self:chat(call)
    if not reply then
        return nil, message, code, partial
    end
    local defaults = self.defaults
    return read.answer(reply, call.n or defaults.n, call.returns or defaults.returns)
end

---Opens a model, or says why not: see ponder.model.
---@param name? string default: the first that --allow-model names
function model.try_open(name, opts)
    name = name or model.default_name()
    if not name then
        return nil, "no model is allowed here: name one in --allow-model"
    elseif not allowed[name] then
        return nil, ("%s is not allowed here: name it in --allow-model"):format(options.show(name))
    end
    return setmetatable({ name = name, provider = name:match "^[^:]*", model = name:match ":(.*)$",
        defaults = without_functions(opts or {}) }, Model)
end

---Opens a model. Options of calls become defaults; the parent refuses a call with others by name.
---@param name? string default: the first that --allow-model names
function model.open(name, opts)
    local opened, message = model.try_open(name, opts)
    if not opened then
        error("model.open: " .. message, 2)
    end
    return opened
end

---The first of the allowed models; nil: none is.
function model.default_name()
    return names[1]
end

---Sets the allowed models.
function model.allow(list)
    names = list
    for _, name in ipairs(list) do
        allowed[name] = true
    end
end

return model
