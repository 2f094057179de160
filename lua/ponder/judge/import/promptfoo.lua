--- Converts promptfoo's configuration files to evaluations: prompts, providers, tests, variables,
--- assertions. What it cannot carry over it says, with the line. It runs none of their code.

local data = require "ponder.data"
local files = require "ponder.run.log.files"
local json = require "ponder.json"
local literal = require "ponder.judge.import.literal"
local options = require "ponder.base.options"
local pattern = require "ponder.judge.import.pattern"
local quote = require "ponder.quote"
local yaml = require "ponder.base.yaml"

local MAX_ITEMS = 10000

---@class ponder.judge.Promptfoo
---@field path string of the configuration file
---@field directory string to which its files are relative
---@field root table
---@field notes string[] what is not carried over
---@field places table<table, {[1]: string, [2]: table}> of each list and map: its file, its lines
---@field used table<string, boolean> variables that prompts and checks show
---@field needs table<string, boolean> types of checks that name no model
local Promptfoo = {}
Promptfoo.__index = Promptfoo

function Promptfoo:note(node, key, message, ...)
    local place = self.places[node] or { self.path, {} }
    local line = place[2][key] or place[2][0]
    self.notes[#self.notes + 1] = ("%s:%s %s"):format(place[1], line and line .. ":" or "",
        message:format(...):gsub("%s+", " "))
end

-- Notes the fields of a map that are not known, and removes those that have none of the types, as
-- `type` calls them, that `known` has for them; `why` has a reason for some.
function Promptfoo:check_fields(node, what, known, why)
    for _, name in ipairs(options.names(type(node) == "table" and node or {})) do
        local value = node[name]
        if not known[name] then
            self:note(node, name, "%s%s is not carried over%s", what, name, why and why[name]
                and ": " .. why[name] or "")
        elseif not known[name]:find(type(value)) then
            self:note(node, name, "%s%s must be a %s", what, name, known[name])
            node[name] = nil
        end
    end
end

local TEXT = "string number boolean"
local TEST = { description = TEXT, vars = "table string", assert = "table", threshold = "number",
    options = "table", metadata = "table" }
local ASSERTION = { type = "string", value = TEXT .. " table", threshold = "number",
    weight = "number", provider = "string table", assert = "table", description = TEXT,
    transform = TEXT, ["$ref"] = "string" }
local PROVIDER = { id = "string", label = "string", config = "table", prompts = "table" }
local ROOT = { description = TEXT, prompts = "string table", providers = "string table",
    targets = "string table", tests = "string table", defaultTest = "string table",
    assertionTemplates = "table", ["$schema"] = "string" }

-- The value of a YAML or JSON text, without nulls in maps.
function Promptfoo:decode(source, path)
    local value, lines = yaml.decode(source)
    if value == nil then
        return nil, ("%s: %s"):format(path, lines)
    end
    for node, its in pairs(lines) do
        self.places[node] = { path, its }
        for key, field in pairs(node) do
            if field == json.null and type(key) == "string" then node[key] = nil end
        end
    end
    return value
end

-- What `file://PATH` names: its text, or unless `as_text` the value of a file of data.
function Promptfoo:read(reference, as_text)
    local path = tostring(reference):gsub("^file://", "")
    local ending = path:match "%.(%w+)$"
    if not ending or not ("txt md j2 json jsonl yaml yml csv"):find("%f[%w]" .. ending .. "%f[%W]")
        or path:find "[*?{]" then
        return nil, "expected one file of text, YAML, JSON or CSV"
    end
    path = path:sub(1, 1) == "/" and path or self.directory .. "/" .. path
    if not as_text and (ending == "csv" or ending == "jsonl") then
        return data.load(path)
    end
    local source, message = files.read(path, "data")
    if source and not as_text and ending:find "^[yj]" then
        return self:decode(source, path)
    end
    return source and quote.trim(source), message
end

-- What a map with `$ref: "#/..."` stands for.
function Promptfoo:follow(node)
    local reference = type(node) == "table" and node["$ref"]
    if type(reference) ~= "string" then return node end
    local found = self.root
    for part in reference:gsub("^#/", ""):gmatch "[^/]+" do
        found = type(found) == "table" and found[part] or nil
    end
    return found
end

-- A Nunjucks text as one of our templates; or nil and what of it we lack.
function Promptfoo:template(source)
    local lacks = source:match "{%%.-%%}"
    local made = source:gsub("{#.-#}", ""):gsub("{{(.-)}}", function(inside)
        local name = inside:match "^%s*([%a_][%w_]*[%w_.]*)%s*$"
        if name and not name:find "^env%." then
            self.used[name:match "^[^.]+"] = true
            return "{{" .. name .. "}}"
        end
        lacks = lacks or "{{" .. inside .. "}}"
    end)
    return not lacks and made or nil, lacks and "Nunjucks " .. lacks
end

local function list_of(value)
    return type(value) == "table" and (value[1] ~= nil or next(value) == nil) and value or { value }
end

-------------------------------------------------------------------------------
-- Prompts

-- The `prompt` of a policy; or nil, and why not.
function Promptfoo:prompt(source)
    local whole = source:match "^%s*{{%s*([%w_]+)%s*|%s*dump%s*}}%s*$"
    if whole then -- messages in a variable
        self.used[whole] = true
        return literal.code(("function(item) return item[%s] end"):format(literal.of(whole)))
    end
    local quoted = source:gsub("{{%s*([%w_.]+)%s*|%s*dump%s*}}", '"{{%1}}"')
    local value = source:find "^%s*[%[-]" and self:decode(quoted, self.path)
    if type(value) ~= "table" or type(value[1]) ~= "table" or not value[1].role then
        return self:template(source)
    end
    for i, one in ipairs(value) do
        if type(one.content) ~= "string" then
            return nil, "a message that is not a text"
        end
        local made, message = self:template(one.content)
        if not made then
            return nil, message
        end
        value[i] = { role = one.role, content = made }
    end
    return value
end

function Promptfoo:read_prompts()
    local list = {}
    for i, one in ipairs(list_of(self.root.prompts or "{{prompt}}")) do
        local node = type(one) == "table" and one or self.root.prompts
        local source, message = type(one) == "table" and (one.raw or one.id) or one, nil
        local is_file = type(source) == "string" and (source:find "^file://"
            or source:find "^[%w_./-]+%.%l+%d?$")
        if is_file then
            source, message = self:read(source, true)
        elseif type(source) ~= "string" or source:find "^%l+://" or source:find "^exec:" then
            source = nil
        end
        local parts = (source or "") .. (is_file and "\n---\n" or "\0")
        parts = is_file and parts:gsub("%s*\n%-%-%-+[ \t\r]*\n%s*", "\0") or parts
        for part in parts:gmatch "(%Z*)%z" do
            local made
            if source then
                made, message = self:prompt(part)
            end
            list[#list + 1] = made and { prompt = made, label = tostring(type(one) == "table"
                and one.label or "prompt " .. #list + 1) } or nil
            if not made then
                self:note(node, i, "prompt %d is not carried over: %s", i, message
                    or "no text or file")
            end
        end
    end
    return list
end

-------------------------------------------------------------------------------
-- Providers

local SERVICES = { google = "gemini", togetherai = "together", azureopenai = "azure" }
for name in ("openai anthropic mistral groq deepseek xai openrouter ollama azure bedrock vllm")
    :gmatch "%l+" do
    SERVICES[name] = name
end
local OTHER = {}
for name in ("assistant realtime image moderation completion speech transcription agents agent "
    .. "video live tts codex-sdk chatkit"):gmatch "%S+" do
    OTHER[name] = true
end

-- Our name of a model; nil: we have no such service.
local function model_of(provider, field)
    provider = type(provider) == "table" and (provider.id or provider[field]) or provider
    provider = type(provider) == "table" and provider.id or provider
    local service, name = tostring(provider):match "^(%w+):(.+)$"
    local kind, rest = (name or ""):match "^([%l-]+):(.+)$"
    if SERVICES[service] and not OTHER[kind or name] then
        local is_kind = kind and ("chat messages responses embeddings"):find(kind, 1, true)
        return SERVICES[service] .. ":" .. (is_kind and rest or name)
    end
end

local CONFIG = { temperature = "temperature", max_tokens = "max_output_tokens", seed = "seed",
    max_completion_tokens = "max_output_tokens", max_output_tokens = "max_output_tokens",
    maxOutputTokens = "max_output_tokens", top_p = "top_p", topP = "top_p", top_k = "top_k",
    topK = "top_k", stop = "stop", frequency_penalty = "frequency_penalty",
    presence_penalty = "presence_penalty", reasoning_effort = "reasoning_effort",
    response_format = "response_format" }

function Promptfoo:read_providers()
    local list = {}
    for i, one in ipairs(list_of(self.root.providers or self.root.targets or {})) do
        local node, message = one, nil
        if type(one) == "string" and one:find "^file://" then
            node, message = self:read(one)
        end
        local id = tostring(type(node) == "table" and node.id or node or one)
        local made = { label = id, model = model_of(id), options = {} }
        if not made.model then
            self:note(self.root.providers, i, "the provider %s is not carried over%s", id,
                message and ": " .. message or "")
        else
            list[#list + 1] = made
        end
        if made.model and type(node) == "table" then
            self:check_fields(node, "providers: ", PROVIDER)
            made.label, made.prompts = node.label or id, node.prompts
            for _, name in ipairs(options.names(node.config or {})) do
                if CONFIG[name] then
                    made.options[CONFIG[name]] = node.config[name]
                else
                    self:note(node.config, name, "providers: config: %s is not carried over", name)
                end
            end
        end
    end
    if not list[1] then
        self:note(self.root, "providers", "no provider is left: --model or $PONDER_MODEL names one")
        list[1] = { label = "model", options = {} }
    end
    return list
end

-- The policies by name: each prompt of each provider.
local function policies_of(prompts, providers)
    local policies = {}
    for _, provider in ipairs(providers) do
        for _, prompt in ipairs(prompts) do
            local is_chosen = not provider.prompts
            for _, wanted in ipairs(provider.prompts or {}) do
                is_chosen = is_chosen
                    or (prompt.label .. ":"):find(tostring(wanted) .. ":", 1, true) == 1
            end
            local base = provider.label .. (prompts[2] and " " .. prompt.label or "")
            local name, number = base, 1
            while policies[name] do
                number = number + 1
                name = ("%s (%d)"):format(base, number)
            end
            local model = literal.code("flags.model" .. (provider.model and " or "
                .. literal.of(provider.model) or ""))
            policies[name] = is_chosen and options.merge({ prompt = prompt.prompt, model = model },
                provider.options) or nil
        end
    end
    return policies
end

-------------------------------------------------------------------------------
-- Assertions

local TYPES = { ["llm-rubric"] = "rubric", ["similar:cosine"] = "similar" }
for name in ("equals contains icontains contains-any contains-all icontains-any icontains-all "
    .. "starts-with regex is-json contains-json similar cost latency"):gmatch "%S+" do
    TYPES[name] = name:gsub("-", "_")
end
local SCRIPTS = { javascript = "JavaScript", python = "Python", ruby = "Ruby",
    webhook = "webhooks" }
local UNCHECKED = ("minimum maximum minLength maxLength pattern format minItems maxItems "
    .. "uniqueItems multipleOf")

-- The first keyword of a schema that ponder does not check.
local function unchecked(schema)
    for name, part in pairs(type(schema) == "table" and schema or {}) do
        local is_it = type(name) == "string" and type(part) ~= "table"
            and UNCHECKED:find("%f[%a]" .. name .. "%f[%A]")
        local found = is_it and name or unchecked(part)
        if found then return found end
    end
end

-- A check for an assertion; or nil, and why not.
function Promptfoo:check(one)
    local kind = tostring(one.type):gsub("^not%-", "")
    local check = { type = TYPES[kind], negated = kind ~= one.type and true or nil,
        threshold = tonumber(one.threshold), weight = one.weight, model = one.provider
            and model_of(one.provider, kind == "similar" and "embedding" or "text") }
    local value, message = one.value, nil
    if SCRIPTS[kind] then
        return nil, ("ponder runs no %s; write a function as `score`"):format(SCRIPTS[kind])
    elseif not check.type or one.provider and not check.model then
        return nil, check.type and "ponder does not know its provider"
            or "ponder has no check of this type"
    elseif one.transform then
        return nil, "its transform is JavaScript"
    elseif type(value) == "string" and value:find "^file://" then
        value, message = self:read(value)
    elseif type(value) == "string" and kind:find "json" then
        value, message = self:decode(value, self.path)
        value = value ~= json.null and value or nil
    elseif type(value) == "string" and kind:find "%-a[nl][yl]$" then
        local list = {}
        for part in value:gmatch "[^,]+" do
            list[#list + 1] = quote.trim(part)
        end
        value = list
    end
    if kind == "regex" and value then
        value, message = pattern(tostring(value))
        message = message and "POSIX expressions lack " .. message
    elseif type(value) == "string" then
        value, message = self:template(value)
    elseif type(value) == "table" and not kind:find "json" and kind ~= "equals" then
        for i, part in ipairs(value) do
            local made, problem = self:template(tostring(part))
            value[i], message = made or "", message or problem
        end
    elseif kind == "cost" or kind == "latency" then
        message = not check.threshold and "it has no threshold" or nil
    end
    if message then
        return nil, message
    end
    check.value, self.needs[check.type] = value, self.needs[check.type] or not check.model
    if kind:find "json" and unchecked(value) then
        self:note(one, "value", "%s: the schema's %s is not checked", kind, unchecked(value))
    elseif kind == "llm-rubric" and check.threshold and check.threshold < 1 then
        self:note(one, "threshold", "llm-rubric: graded PASS or FAIL: any threshold means PASS")
    end
    return check
end

-- Appends the checks for a list of assertions.
function Promptfoo:read_checks(list, into)
    for i, given in ipairs(type(list) == "table" and list or {}) do
        local one = self:follow(given)
        self:check_fields(one, "assert: ", ASSERTION, { metric = "no names of metrics",
            rubricPrompt = "ponder's own prompt grades PASS or FAIL" })
        if type(one) ~= "table" then
            self:note(list, i, "an assertion is not carried over: unknown $ref")
        elseif one.type == "assert-set" and not one.threshold then
            self:read_checks(one.assert, into)
        elseif one.weight ~= 0 then -- which never fails a test
            local check, message = self:check(one)
            into[#into + 1] = check
            if not check then
                self:note(one, "type", "the assertion %s is not carried over: %s", one.type,
                    message)
            end
        end
    end
    return into
end

-- What a cell of the column `__expected` asserts.
local function assertion_of(cell)
    local kind, value = cell:match "^([%l-]+)%(?[%d.]*%)?:%s*(.*)$"
    kind = kind == "grade" and "llm-rubric" or (kind == "fn" or kind == "eval") and "javascript"
        or kind or cell
    if not TYPES[kind:gsub("^not%-", "")] and not SCRIPTS[kind] then
        return { type = "equals", value = cell }
    end
    return { type = kind, value = value, threshold = tonumber(cell:match "^[%l-]+%(([%d.]+)%)")
        or kind == "similar" and 0.8 or nil }
end

-------------------------------------------------------------------------------
-- Tests

-- A test of a row of CSV.
local function of_row(row)
    local test = { vars = {}, assert = {}, options = {} }
    for _, name in ipairs(options.names(row)) do
        local special = name:match "^__(%l+)"
        if special == "expected" then
            table.insert(test.assert, assertion_of(tostring(row[name])))
        elseif special == "description" or special == "threshold" then
            test[special] = row[name]
        else
            (special and special ~= "metric" and test.options or test.vars)[name] = row[name]
        end
    end
    return test
end

-- Appends the tests that a value of `tests` names.
function Promptfoo:read_tests(given, into)
    for i, one in ipairs(list_of(given)) do
        local value, message = self:follow(one), nil
        if type(one) == "string" then
            value, message = self:read(one)
        end
        if type(value) ~= "table" or value.path then
            local is_list = type(given) == "table"
            self:note(is_list and given or self.root, is_list and i or "tests",
                "tests are not carried over: %s", message or value and value.path or one)
        elseif type(one) ~= "string" then
            into[#into + 1] = value
        elseif one:find "%.csv$" then
            for number, row in ipairs(value) do
                local test = of_row(row)
                into[#into + 1] = test
                for _, node in ipairs { test, test.options, table.unpack(test.assert) } do
                    self.places[node] = { (one:gsub("^file://", "")), { [0] = number + 1 } }
                end
            end
        else
            self:read_tests(value, into)
        end
    end
    return into
end

-- The variables of a test over the default ones, with those filled in that they name.
function Promptfoo:variables(test, defaults)
    local vars = {}
    for _, source in ipairs { defaults, test } do
        local given = type(source.vars) == "string" and self:read(source.vars) or source.vars
        for name, value in pairs(type(given) == "table" and given or {}) do
            local message
            if type(value) == "string" and value:find "^file://" then
                value, message = self:read(value)
            end
            vars[name] = value
            if message then
                self:note(source, "vars", "the variable %s is not carried over: %s", name, message)
            end
        end
    end
    local filled = options.merge({}, vars)
    for name, value in pairs(vars) do
        if type(value) == "string" and value:find "{[{%%]" then
            local made, message = self:template(value)
            filled[name] = made and made:gsub("{{([%w_]+)}}", vars) or value
            if message then
                self:note(test, "vars", "the variable %s is used as it is: %s", name, message)
            end
        end
    end
    return filled
end

-- All combinations of the values of lists of texts.
local function combinations(vars)
    local list = { {} }
    for _, name in ipairs(options.names(vars)) do
        local value, longer = vars[name], {}
        for _, before in ipairs(#list <= MAX_ITEMS and list or {}) do
            for _, one in ipairs(type(value) == "table" and type(value[1]) == "string" and value
                or { value }) do
                longer[#longer + 1] = options.merge({ [name] = one }, before)
            end
        end
        list = #list <= MAX_ITEMS and longer or list
    end
    return list
end

function Promptfoo:items(defaults, has_defaults)
    local items, seen, without = {}, {}, 0
    for _, test in ipairs(self:read_tests(self.root.tests or { { vars = {} } }, {})) do
        self:check_fields(test, "tests: ", TEST, { provider = "each provider answers all tests" })
        self:check_fields(test.options, "tests: options: ", {}, { provider = "see defaultTest",
            transform = "ponder runs no JavaScript" })
        local own = self:read_checks(test.assert, {})
        own.threshold = tonumber(test.threshold or defaults.threshold)
        without = without + ((own[1] or has_defaults) and 0 or 1)
        for _, item in ipairs(combinations(self:variables(test, defaults))) do
            if item.checks ~= nil then
                self:note(test, "vars", "the variable checks is lost: rename it")
            end
            item.checks, item.metadata = next(own) and own or nil, item.metadata or test.metadata
                or defaults.metadata
            local id = test.description and tostring(test.description)
            item.id = item.id or id and not seen[id] and id or tostring(#items + 1)
            items[#items + 1], seen[item.id] = item, true
        end
        if #items > MAX_ITEMS then
            return nil, ("%s: more than %d tests"):format(self.path, MAX_ITEMS)
        end
    end
    if without > 0 then
        self:note(self.root, "tests", "tests without assertions, %d, count as right", without)
    end
    return items
end

-------------------------------------------------------------------------------

-- The model that grades, where assertions name none, as code; nil: they need none.
function Promptfoo:grader(kind, field, defaults, fallback)
    if not self.needs[kind] then return nil end
    local named = type(defaults.options) == "table" and defaults.options.provider
    local model = named and model_of(named, field)
    if not model then
        self:note(self.root, "defaultTest", "no model is named for %s: it asks %s",
            kind == "rubric" and "llm-rubric" or kind, fallback or "the one of --model")
    end
    return literal.code((kind == "rubric" and "flags.model or " or "") .. literal.of(model
        or fallback))
end

---Converts a configuration.
---@param directory string to which its files are relative
---@return string? lua an evaluation, without the comment at its head
---@return string[]|string notes what is not carried over, one line each; or what is wrong
return function(source, path, directory)
    local self = setmetatable({ path = path, directory = directory, notes = {}, places = {},
        used = {}, needs = {} }, Promptfoo)
    local root, message = self:decode(source, path)
    if type(root) ~= "table" or not (root.prompts or root.tests) then
        return nil, message or path .. ": expected prompts, providers and tests, as for promptfoo"
    end
    self.root = root
    self:check_fields(root, "", ROOT, { env = "set the environment",
        outputPath = "--csv, --html, --json", evaluateOptions = "--concurrency, --epochs" })
    local defaults = root.defaultTest or {}
    if type(defaults) == "string" then
        defaults, message = self:read(defaults)
    end
    if type(defaults) ~= "table" then
        return nil, ("%s: defaultTest: %s"):format(path, message or "expected a map")
    end
    self:check_fields(defaults, "defaultTest: ", TEST)
    local prompts, providers = self:read_prompts(), self:read_providers()
    local common = self:read_checks(defaults.assert, {})
    local items, problem = self:items(defaults, common[1])
    local policies = policies_of(prompts, providers)
    if not items or not items[1] or not next(policies) then
        table.insert(self.notes, problem or ("%s: no %s is left"):format(path, next(policies)
            and "test" or prompts[1] and "prompt of a provider" or "prompt"))
        return nil, table.concat(self.notes, "\n")
    end
    for _, item in ipairs(items) do
        for name in pairs(self.used) do -- Nunjucks shows nothing for a variable that a test lacks
            item[name] = item[name] == nil and "" or item[name]
        end
    end
    local scorer = { checks = common[1] and common or nil,
        model = self:grader("rubric", "text", defaults, providers[1].model),
        embedder = self:grader("similar", "embedding", defaults, "openai:text-embedding-3-large") }
    return 'local score = require "ponder.eval.score"\n'
        .. "local flags = ... or {} -- of the command line: flags.model is --model\n\nreturn "
        .. literal.of { name = tostring(root.description or path:match "[^/]*$"), data = items,
            policies = policies,
            score = literal.code("score.checks " .. literal.of(scorer, "    ")) }
        .. "\n", self.notes
end
