--- Checks prompt functions without a model: renders each with sample data and reports problems with
--- file and line.

local failures = require "ponder.run.task.failures"
local options = require "ponder.base.options"
local pure = require "ponder.base.pure"

local check = {}

local ROLES = { system = true, user = true, assistant = true }

-- Where a function begins: "prompts/tot.lua:12", in the form of error messages.
local function place(f)
    local info = debug.getinfo(f, "S")
    return ("%s:%d"):format(info.short_src, info.linedefined)
end

-- The innermost running line of the file of `f`, for error handlers and metamethods.
local function place_in_file(f)
    local source, level = debug.getinfo(f, "S").source, 3
    local info = debug.getinfo(level, "Sl")
    while info do
        if info.source == source and info.currentline > 0 then
            return ("%s:%d"):format(info.short_src, info.currentline)
        end
        level = level + 1
        info = debug.getinfo(level, "Sl")
    end
    return place(f)
end

-- A context that records where `f` reads fields that no context has.
local function watched(context, f, known, missed)
    local names = options.names(known)
    return setmetatable({}, {
        __index = function(_, name)
            if name == "quote" or name == "cut" then
                return function(_, ...)
                    return context[name](context, ...)
                end
            end
            if not known[name] and not missed[name] then
                missed[name] = ("%s: context.%s: no such field%s"):format(
                    place_in_file(f), tostring(name), options.hint(name, names, "context.%s"))
            end
            return context[name]
        end,
        __newindex = function(_, name, value)
            context[name] = value
            known[name], missed[name] = true, nil
        end,
        __pairs = function()
            return next, context, nil
        end,
    })
end

-- What is wrong with the messages that a prompt function returned, or nil.
local function message_problem(messages)
    if type(messages) ~= "table" or #messages == 0 then
        return ("must return a non-empty list of messages (got %s)"):format(
            options.show(messages))
    end
    for i, message in ipairs(messages) do
        if type(message) ~= "table" or not ROLES[message.role] then
            return ("message %d must be a table with a role: system, user or assistant"):format(i)
        elseif type(message.content) ~= "string" or message.content == "" then
            return ("message %d: content must be a non-empty string (got %s)"):format(i,
                options.show(message.content))
        end
    end
end

-- The texts in a field of a context: a string, or the items of a list.
local function texts_in(value)
    if type(value) == "string" then
        return { value }
    end
    local texts = {}
    if type(value) == "table" then
        for _, item in ipairs(value.content and { value } or value) do
            texts[#texts + 1] = type(item) == "table" and item.content or item
        end
    end
    return texts
end

-- The first needed field whose text is in no message, or nil.
local function missing_field(context, needs, messages)
    local parts = {}
    for i, message in ipairs(messages) do
        parts[i] = message.content
    end
    local all = table.concat(parts, "\n")
    for _, field in ipairs(needs) do
        for _, text in ipairs(texts_in(context[field])) do
            if not all:find(text, 1, true) then
                return field
            end
        end
    end
end

local function add(problems, problem)
    if problem and not problems[problem] then
        problems[problem] = true
        problems[#problems + 1] = problem
    end
end

-- The fields of all contexts; a single context may lack some.
local function fields_of(contexts_by_prompt)
    local known = { instructions = true, max_text_bytes = true }
    for _, contexts in pairs(contexts_by_prompt) do
        for _, context in ipairs(contexts) do
            for field in pairs(context) do
                known[field] = true
            end
        end
    end
    return known
end

-- The messages of a prompt function, without metatables; or nil and a problem.
local function render(f, context)
    local ok, result = xpcall(f, function(err)
        local text = tostring(err)
        local at = place_in_file(f)
        return text:sub(1, #at) == at and text or at .. ": " .. text
    end, context)
    if not ok then
        failures.pass_stop(ok, result)
        return nil, result
    end
    local problem = message_problem(result)
    if problem then
        return nil, place(f) .. ": " .. problem
    end
    local messages = {}
    for i, message in ipairs(result) do
        messages[i] = { role = message.role, content = message.content }
    end
    return messages
end

---Renders a prompt function, within limits of steps and memory (ponder.base.pure).
---@return table? messages
---@return string? problem begins with file and line
function check.render(f, context)
    local ok, messages, problem = pure.call(render, f, context)
    if not ok then
        return nil, ("%s: %s"):format(place(f), tostring(messages):gsub("^[^:]*:%d+: ", ""))
    end
    return messages, problem
end

local function is_string(key)
    return type(key) == "string"
end

local function check_function(problems, label, f, contexts, known, needs)
    local missed = {}
    for _, context in ipairs(contexts) do
        local messages, problem = check.render(f, watched(context, f, known, missed))
        for _, name in ipairs(options.names(missed, is_string)) do
            add(problems, missed[name])
        end
        local field = needs and messages and missing_field(context, needs, messages)
        if needs and (problem or field) then
            return add(problems, problem or ("%s: %s: its messages lack the text of context.%s")
                :format(place(f), label, field))
        end
    end
end

local function function_names(prompts)
    return options.names(prompts, function(_, f) return type(f) == "function" end)
end

---Checks the prompts of one file.
---@param subject ponder.prompt.Subject whose they are
---@param prompts table what the file returned
---@param path string? the file, for problems without a line; nil: built in
---@param names_only boolean? only functions that nothing calls, and fields that no context has
---@return string[] problems a line each
---@return integer count of functions that were rendered
function check.all(subject, prompts, path, names_only)
    local problems, count = {}, 0
    local contexts, functions = subject.samples(), subject.functions()
    local known = fields_of(contexts)
    for _, prompt in ipairs(function_names(functions)) do
        local f = prompts[prompt]
        if type(f) == "function" then
            count = count + 1
            check_function(problems, subject.name .. "." .. prompt, f, contexts[prompt] or {},
                known, not names_only and (subject.needs[prompt] or {}))
        elseif not names_only then
            add(problems, ("%s: the function %s is missing%s"):format(path or "built in", prompt,
                f ~= nil and (" (got %s)"):format(options.show(f)) or ""))
        end
    end
    for _, prompt in ipairs(function_names(prompts)) do
        if not functions[prompt] then
            add(problems, ("%s: nothing calls the function %s%s"):format(place(prompts[prompt]),
                prompt, options.hint(prompt, function_names(functions), "%s")))
        end
    end
    return problems, count
end

---Checks the names in a file, before each run.
---@return string? problem the first, with its file and line
function check.names(subject, prompts)
    return check.all(subject, prompts, nil, true)[1]
end

return check
