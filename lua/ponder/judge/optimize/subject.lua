--- The policy that is optimized: its prompts and options as they are (the seed), the policy that
--- each candidate makes of it, and the prompt file with a candidate's prompts.
---
--- | policy          | prompts                                                                   |
--- |-----------------|---------------------------------------------------------------------------|
--- | a strategy      | those of its prompt file: a text is a template; a function's text is that |
--- |                 | of `instructions`, which the function finds in `context.instructions`     |
--- | a prompt        | `prompt` and `system`, texts                                              |
--- | a function,     | texts of their own, given to optimize.run; they find them in              |
--- | a search        | `run.prompts`, and options in `run.options`                               |

local builtin = require "ponder.base.builtin"
local files = require "ponder.run.log.files"
local json = require "ponder.json"
local new_strategy = require "ponder.think.strategy.run"
local options = require "ponder.base.options"
local policies = require "ponder.eval.policy"
local prompt = require "ponder.prompt"
local quote = require "ponder.quote"
local store = require "ponder.core.store"
local strategy = require "ponder.strategy"
local template = require "ponder.template"

local subject = {}

local MAX_BYTES = 100000 -- of a candidate's text

---@class ponder.optimize.Subject
---@field name string of the policy
---@field kind "strategy"|"prompt"|"own"
---@field value any the policy of the evaluation
---@field seed {prompts: table<string, string>, options: table<string, any>}
---@field parts {kind: "prompt"|"option", name: string, range: table?}[] what may change
---@field file_name string of the prompt file, without .lua
---@field private bases table<string, function> functions of a strategy that use instructions
---@field private before string Lua code of the prompt file: an expression for the prompts so far
local Subject = {}
Subject.__index = Subject

-- The texts of a strategy's prompts; or nil and what is wrong.
local function read_strategy(self, names)
    local kind, opts = self.value.kind, self.value.opts
    local found, message = prompt.load(kind.name, kind.prompts)
    if not found then
        return nil, message
    end
    local path = prompt.find(kind.name).path
    local own = path and files.read(path, "prompts") or kind.prompt_text
    self.file_name = kind.name
    self.before = own and ("(function(...)\n%s\nend)(...)"):format(own)
        or ('require "prompts.%s"'):format(kind.name)
    if not own and not options.has(strategy.names, kind.name) then
        return nil, ("the prompts of %s are functions of its script: move them to a prompt file, "
            .. "and give the strategy its text"):format(kind.name)
    end
    for _, name in ipairs(names) do
        local known, option = options.names(kind.prompt_names), kind.prompt_names[name]
        if not option then
            return nil, ("there is no prompt %s%s; there are %s"):format(options.show(name),
                options.hint(name, known), table.concat(known, ", "))
        end
        local text = opts[option] or (opts.prompts or {})[name] -- instructions, or a function
        if text then
            self.bases[name] = (kind.prompts or builtin.prompts(kind.name))[name]
        else
            text = prompt.template_of(found[name])
            self.bases[name] = not text and found[name] or nil
            text = text or (found.instructions or {})[name]
        end
        if type(text) ~= "string" then
            return nil, ("the prompt %s is a function without a text: give its file "
                .. "`instructions = { %s = TEXT }`, which it uses where there is no "
                .. "context.instructions, or a text in place of the function"):format(name, name)
        end
        self.seed.prompts[name] = text
    end
    return true
end

local function read_prompt(self, names)
    self.value = policies.with_file(self.name, self.value)
    for _, name in ipairs(names) do
        local text = self.value[name]
        if name ~= "prompt" and name ~= "system" then
            return nil, ("there is no prompt %s; there are prompt, system"):format(
                options.show(name))
        elseif name == "prompt" and type(text) ~= "string" then
            return nil, ("its prompt must be a text, a template with the fields of an item, such "
                .. "as {{question}} (got %s)"):format(options.show(text))
        end
        self.seed.prompts[name] = text or ""
    end
    return true
end

-- The policy of a candidate; raises what is wrong with it.
local function make(self, prompts, chosen)
    local value, name = self.value, self.name .. "#" -- no prompt file has this name
    if self.kind == "strategy" then
        local kind = value.kind
        value = new_strategy(kind, options.merge(options.merge({}, value.given), chosen), -1)
        for of, text in pairs(prompts) do
            local base, render = self.bases[of], template.compile(text, of)
            value.opts[kind.prompt_names[of]] = base and function(context)
                context.instructions = text
                return base(context)
            end or function(context)
                return { { role = "user", content = render(context) } }
            end
        end
    elseif self.kind == "prompt" then
        value = options.merge(options.merge({}, value), chosen)
        for field, text in pairs(prompts) do
            value[field] = text ~= "" and text or nil
        end
    end
    return policies.new(name, value, 0)
end

---The policy of a candidate.
---@param candidate {prompts: table<string, string>, options: table<string, any>, hash: string?}
---@param items ponder.eval.Item[] a prompt must fit one of them
---@return ponder.eval.Policy?
---@return string? message why it cannot be used
function Subject:policy(candidate, items)
    for name, text in pairs(candidate.prompts) do
        local problem = type(text) ~= "string" and "is not a text"
            or #text > MAX_BYTES and ("has more than %d bytes"):format(MAX_BYTES)
            or not utf8.len(text) and "is not UTF-8"
            or text ~= self.seed.prompts[name] and not text:find "%S" and "is empty"
        if problem then
            return nil, ("the prompt %s %s"):format(name, problem)
        end
    end
    local ok, made = pcall(make, self, candidate.prompts, candidate.options)
    local message = not ok and made or made.check and made.check(items)
    if message then
        return nil, (tostring(message):gsub("^eval: policies%[[^%]]*%]: ", "")
            :gsub("^strategy%.%w+%.new: ", ""))
    end
    local act = made.act
    function made.act(item, run)
        run.prompts, run.options = candidate.prompts, candidate.options
        return act(item, run)
    end
    made.base, made.candidate = self.name, options.pick(candidate, { "prompts", "options" })
    made.name = ("%s#%s"):format(self.name, (candidate.hash or ""):sub(1, 8))
    return made
end

---Finds the prompts and options of a policy that are to change.
---@param name string
---@param value any of the evaluation's `policies`
---@param prompts string[]|table<string, string> names; or texts by name
---@param ranges table<string, table> by option: {min =, max =} or a list of values
---@return ponder.optimize.Subject?
---@return string? message
function subject.new(name, value, prompts, ranges)
    value = strategy.is_library(value) and value.new() or value
    local is_strategy = type(value) == "table" and type(value.run) == "function"
    local is_own = type(value) == "function" or type(value) == "table"
        and type(value.search) == "function"
    local self = setmetatable({ name = name, value = value, parts = {}, file_name = name,
        kind = is_strategy and "strategy" or is_own and "own" or "prompt", bases = {},
        before = "{}", seed = { prompts = {}, options = {} } }, Subject)
    local names, texts, ok, message = {}, {}, true, nil
    for key, text in pairs(prompts) do
        names[#names + 1] = type(key) == "string" and key or text
        texts[key] = type(key) == "string" and text or nil
    end
    table.sort(names)
    if is_own then
        self.seed.prompts, ok = texts, #options.names(texts) == #names
        message = "it has no prompts of its own: give their texts, as in prompts = { hint = TEXT }"
    elseif names[1] then
        ok, message = (is_strategy and read_strategy or read_prompt)(self, names)
        options.merge(self.seed.prompts, texts)
    end
    for i, known in ipairs(names) do
        self.parts[i] = { kind = "prompt", name = known }
    end
    for _, option in ipairs(ok and options.names(ranges) or {}) do
        local range = ranges[option]
        self.parts[#self.parts + 1] = { kind = "option", name = option, range = range }
        self.seed.options[option] = is_own and (range.min or range[1])
            or (is_strategy and value.opts or value)[option]
        for _, one in ipairs(range.min and { range.min, range.max } or range) do
            local _, problem = self:policy({ prompts = {}, options = { [option] = one } }, {})
            ok, message = ok and not problem, message or problem
        end
    end
    return ok and self or nil, not ok and ("policy %s: %s"):format(name, message) or nil
end

---A hash of a candidate's prompts and options.
---@param candidate {prompts: table, options: table}
---@return string
function subject.hash(candidate)
    local parts = {}
    for _, field in ipairs { "prompts", "options" } do
        for _, name in ipairs(options.names(candidate[field])) do
            parts[#parts + 1] = json.encode { field, name, candidate[field][name] }
        end
    end
    return store.sha256(table.concat(parts, "\n"))
end

---Whether a prompt is a template, whose tags a text has to keep.
---@param name string
---@return boolean
function Subject:is_template(name)
    return self.kind == "strategy" and not self.bases[name]
        or self.kind == "prompt" and name == "prompt"
end

-- A text as a Lua string over lines.
local function literal(text)
    local level = ""
    while (text .. "]"):find("]" .. level .. "]", 1, true) do
        level = level .. "="
    end
    return text:find "[\r%z]" and ("%q"):format(text)
        or ("[%s[\n%s]%s]"):format(level, text, level)
end

local FILE = [[

local prompts = %s

local texts = {
%s
}
for name, text in pairs(texts) do -- of a function they are the instructions
    local render = prompts[name]
    prompts[name] = type(render) ~= "function" and text or function(context)
        context.instructions = context.instructions or text
        return render(context)
    end
end
for name, text in pairs(prompts.instructions or {}) do
    texts[name] = texts[name] or text
end
prompts.instructions = texts
return prompts
]]

---The prompt file with a candidate's prompts.
---@param candidate {prompts: table<string, string>}
---@param header string[] lines of a comment
---@return string? text nil: it has no prompts
function Subject:file(candidate, header)
    local lines, texts = {}, {}
    for i, line in ipairs(header) do
        lines[i] = "-- " .. quote.line(line, 2000)
    end
    for i, name in ipairs(options.names(candidate.prompts)) do
        texts[i] = ("    [%q] = %s,"):format(name, literal(candidate.prompts[name]))
    end
    lines[#lines + 1] = FILE:format(self.before, table.concat(texts, "\n"))
    return texts[1] and table.concat(lines, "\n") or nil
end

return subject
