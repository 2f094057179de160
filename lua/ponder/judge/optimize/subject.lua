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
local failures = require "ponder.run.task.failures"
local files = require "ponder.run.log.files"
local json = require "ponder.json"
local literal = require "ponder.judge.import.literal"
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
---@field private bases table<string, function> functions of a strategy that use instructions
---@field private before string Lua code of the prompt file: an expression for the prompts so far
local Subject = {}
Subject.__index = Subject

local function refuse(is_wrong, message, ...)
    if is_wrong then
        error(message:format(...), 0)
    end
end

-- The text of a strategy's prompt.
local function read_prompt(self, found, name)
    local kind, opts = self.value.kind, self.value.opts
    local option, known = kind.prompt_names[name], options.names(kind.prompt_names)
    refuse(not option, "there is no prompt %s%s; there are %s", options.show(name),
        options.hint(name, known), table.concat(known, ", "))
    local text = opts[option] or (opts.prompts or {})[name] -- instructions, or a function
    if text then
        self.bases[name] = (kind.prompts or builtin.prompts(kind.name))[name]
    else
        text = prompt.template_of(found[name])
        self.bases[name] = not text and found[name] or nil
        text = text or (found.instructions or {})[name]
    end
    refuse(type(text) ~= "string", "the prompt %s is a function without a text: give its file "
        .. "`instructions = { %s = TEXT }`, which it uses where there is no context.instructions, "
        .. "or a text in place of the function", name, name)
    return text
end

-- Reads the prompts of a strategy, and how a prompt file gets those that do not change.
local function read_strategy(self, names)
    local kind = self.value.kind
    local found, message = prompt.load(kind.name, kind.prompts)
    refuse(not found, "%s", message)
    local path = prompt.find(kind.name).path
    local own = path and files.read(path, "prompts") or kind.prompt_text
    self.before = own and ("(function(...)\n%s\nend)(...)"):format(own)
        or ('require "prompts.%s"'):format(kind.name)
    refuse(not own and not options.has(strategy.names, kind.name), "the prompts of %s are "
        .. "functions of its script: move them to a prompt file, and give the strategy its text",
        kind.name)
    for _, name in ipairs(names) do
        self.seed.prompts[name] = read_prompt(self, found, name)
    end
end

local function read_texts(self, names)
    self.value = policies.with_file(self.name, self.value)
    for _, name in ipairs(names) do
        local text = self.value[name]
        refuse(name ~= "prompt" and name ~= "system", "there is no prompt %s; there are prompt, "
            .. "system", options.show(name))
        refuse(name == "prompt" and type(text) ~= "string", "its prompt must be a text, a template "
            .. "with the fields of an item, such as {{question}} (got %s)", options.show(text))
        self.seed.prompts[name] = text or ""
    end
end

-- The policy of a candidate; raises what is wrong with it.
local function make(self, prompts, chosen, items)
    local value = self.value
    for name, text in pairs(prompts) do
        local is_seed = text == self.seed.prompts[name]
        refuse(type(text) ~= "string" or not utf8.len(text), "prompt %s is not UTF-8 text", name)
        refuse(#text > MAX_BYTES, "prompt %s has more than %d bytes", name, MAX_BYTES)
        refuse(not is_seed and not text:find "%S", "prompt %s is empty", name)
    end
    if self.kind == "strategy" then
        local kind = value.kind
        value = new_strategy(kind, options.merge(options.merge({}, value.given), chosen), -1)
        for name, text in pairs(prompts) do
            local base, render = self.bases[name], template.compile(text, name)
            value.opts[kind.prompt_names[name]] = function(context)
                context.instructions = text
                return base and base(context) or { { role = "user", content = render(context) } }
            end
        end
    elseif self.kind == "prompt" then
        value = options.merge(options.merge({}, value), chosen)
        for field, text in pairs(prompts) do
            value[field] = text ~= "" and text or nil
        end
    end
    local made = policies.new(self.name .. "#", value, 0) -- no prompt file has this name
    local problem = made.check and made.check(items)
    refuse(problem, "%s", problem)
    return made
end

---The policy of a candidate.
---@param candidate {prompts: table<string, string>, options: table<string, any>, hash: string?}
---@param items ponder.eval.Item[] a prompt must fit one of them
function Subject:policy(candidate, items)
    local ok, made = pcall(make, self, candidate.prompts, candidate.options, items)
    if not ok then
        failures.pass_stop(ok, made)
        return nil, (tostring(made):gsub("^eval: policies%[[^%]]*%]: ", "")
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

local function read(self, prompts, ranges)
    local names, texts = {}, {}
    for key, text in pairs(prompts) do
        names[#names + 1] = type(key) == "string" and key or text
        texts[key] = type(key) == "string" and text or nil
    end
    table.sort(names)
    refuse(self.kind == "own" and #options.names(texts) < #names, "it has no prompts of its own: "
        .. "give their texts, as in prompts = { hint = TEXT }")
    if names[1] and self.kind ~= "own" then
        (self.kind == "strategy" and read_strategy or read_texts)(self, names)
    end
    options.merge(self.seed.prompts, texts)
    for i, known in ipairs(names) do
        self.parts[i] = { kind = "prompt", name = known }
    end
    for _, option in ipairs(options.names(ranges)) do
        local range, value = ranges[option], self.value
        self.parts[#self.parts + 1] = { kind = "option", name = option, range = range }
        if self.kind == "own" then
            value = range.min or range[1]
        elseif self.kind == "strategy" then
            value = value.opts[option]
        elseif value[option] == nil then
            value = (policies.RULES[option] or {}).default
        else
            value = value[option]
        end
        self.seed.options[option] = value
        for _, one in ipairs(range.min and { range.min, range.max } or range) do
            local _, problem = self:policy({ prompts = {}, options = { [option] = one } }, {})
            refuse(problem, "%s", problem)
        end
    end
end

---Finds the prompts and options of a policy that are to change.
---@param value any of the evaluation's `policies`
---@param prompts string[]|table<string, string> names; or texts by name
---@param ranges table<string, table> by option: {min =, max =} or a list of values
function subject.new(name, value, prompts, ranges)
    value = strategy.is_library(value) and value.new() or value
    local kind = type(value) == "table" and (type(value.run) == "function" and "strategy"
        or type(value.search) ~= "function" and "prompt") or "own"
    local self = setmetatable({ name = name, value = value, parts = {}, kind = kind, bases = {},
        before = "{}", seed = { prompts = {}, options = {} } }, Subject)
    local ok, message = pcall(read, self, prompts, ranges)
    failures.pass_stop(ok, message)
    return ok and self or nil, not ok and ("policy %s: %s"):format(name, message) or nil
end

---A hash of a candidate's prompts and options.
function subject.hash(candidate)
    local parts = {}
    for _, field in ipairs { "prompts", "options" } do
        for _, name in ipairs(options.names(candidate[field])) do
            parts[#parts + 1] = json.encode { field, name, candidate[field][name] }
        end
    end
    return store.sha256(table.concat(parts, "\n"))
end

---The tags of a prompt's text that a new one has to keep: "{{question}}"; "" if it is no template.
function Subject:tags(name, text)
    local tags, seen = {}, {}
    local is_template = self.kind == "strategy" and not self.bases[name]
        or self.kind == "prompt" and name == "prompt"
    for tag in (is_template and text or ""):gmatch "{{[^{}]+}}" do
        tags[#tags + 1], seen[tag] = not seen[tag] and tag or nil, true
    end
    return table.concat(tags, " ")
end

local FILE = [[
%s

local prompts = %s

local texts = %s
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
---@return string? text nil: it has no prompts
function Subject:file(candidate, header)
    local lines, texts = {}, {}
    for i, line in ipairs(header) do
        lines[i] = "-- " .. quote.line(line, 2000)
    end
    for name, text in pairs(candidate.prompts) do
        texts[name] = text ~= "" and text or nil
    end
    return next(texts) and FILE:format(table.concat(lines, "\n"), self.before, literal.of(texts))
        or nil
end

return subject
