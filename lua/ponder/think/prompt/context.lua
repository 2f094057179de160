--- Contexts of prompt functions, and the messages that these make of them.

local options = require "ponder.base.options"
local quote = require "ponder.quote"

local contexts = {}

---Options of all machines and strategies.
---@type OptionSchema
contexts.OPTIONS = {
    max_text_bytes = { type = "integer", min = 100, max = 10000000, default = 20000,
        help = "truncate each quoted text except the question to N bytes" },
    max_parse_retries = { type = "integer", min = 0, max = 1000000000, default = 1,
        help = "repair attempts for each unreadable reply" },
}

--- Methods of all prompt contexts: they quote text that others wrote.
-- Prompt files are untrusted: they can reach this table neither by a field nor by getmetatable.
local methods = {}
local Context = { __index = methods }

local listeners = setmetatable({}, { __mode = "k" }) -- by context: the function `on_cut`

local function report_cut(context, tag, bytes, max)
    local on_cut = listeners[context]
    if on_cut then
        on_cut { measurements = { bytes = bytes, max_bytes = max }, metadata = { tag = tag } }
    end
end

---Quotes text between tags that it cannot close. Truncates it to `max_text_bytes`, with a note of
---how much is missing; never truncates the question.
---@param name string letters and underscores
function methods:quote(name, text)
    local max = self.max_text_bytes
    if #text > max and (text == self.prompt or text == self.question) then
        max = #text
    elseif #text > max then
        report_cut(self, name, #text, max)
    end
    return quote.tagged(name, text, max)
end

---Truncates a text to `max` bytes, with a note of how much is missing.
function methods:cut(text, max)
    if #text > max then
        report_cut(self, "text", #text, max)
    end
    return quote.cut(text, max)
end

---Makes a context of its fields.
---@param max_text_bytes integer of each quoted text
---@param on_cut? fun(cut: table) called for each truncated text, with `measurements` and `metadata`
function contexts.new(fields, max_text_bytes, on_cut)
    fields.max_text_bytes, listeners[fields] = max_text_bytes, on_cut
    return setmetatable(fields, Context)
end

---Raises unless a function returned messages.
---@param what string the function
function contexts.check(messages, what)
    if type(messages) ~= "table" then
        error(("%s must return a list of {role=, content=} (got %s)"):format(what,
            options.show(messages)), 0)
    end
    for i = 1, #messages do
        local message = messages[i]
        if type(message) ~= "table" or type(message.role) ~= "string"
            or type(message.content) ~= "string" then
            error(("%s: message %d must be {role=, content=}, both strings"):format(what, i), 0)
        end
    end
    return messages
end

---The messages of a prompt.
---@param prompt function|string|nil a text replaces only the instructions of the built-in one
---@param built_in table<string, function> prompts by name
---@return ponder.model.Message[]
function contexts.messages(prompt, built_in, name, context)
    context.instructions = type(prompt) == "string" and prompt or false
    if type(prompt) == "function" then
        return contexts.check(prompt(context), "prompts." .. name)
    end
    return built_in[name](context)
end

---What is wrong with a table of prompts, or nil. Ignores the key `instructions` of prompt files.
---@param known table<string, any> their names
---@param any_name boolean? ignore unknown names
function contexts.problem(known, prompts, any_name)
    for name, prompt in pairs(prompts or {}) do
        if known[name] ~= nil and type(prompt) ~= "function" and type(prompt) ~= "string" then
            return ("prompts.%s must be a function or a string (got %s)"):format(name,
                options.show(prompt))
        elseif known[name] == nil and name ~= "instructions" and not any_name then
            local names = options.names(known)
            return ("unknown prompt %s%s; there are: %s"):format(options.show(name),
                options.hint(name, names), table.concat(names, ", "))
        end
    end
end

return contexts
