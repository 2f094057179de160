--- Services and servers as data: where they are, and what they refuse or name otherwise. Most speak
--- OpenAI's chat completions. The variables with their keys are in ponder.base.environment.
---
---     local m = model.open "groq:openai/gpt-oss-120b"
---
--- Another one of OpenAI's form is three lines of config.lua:
---
---     return { providers = {
---         mine = { base_url = "https://llm.example/v1", api_key = "$MINE_KEY" },
---     } }
---
--- Facts of November 2026, from the services' documentation and their clients' sources.

local anthropic = require "ponder.model.anthropic"
local environment = require "ponder.base.environment"
local json = require "ponder.json"
local name = require "ponder.model.name"
local ollama = require "ponder.model.ollama"
local openai = require "ponder.model.openai"
local options = require "ponder.base.options"
local pool = require "ponder.model.pool"
local read = require "ponder.model.read"
local retry = require "ponder.model.retry"
local script = require "ponder.model.script"

local endpoints = {}

---@class ponder.model.EndpointRow
---@field base_url string|fun(env: fun(name: string): string?): string?, string? the URL; or nil and
---  what is not set
---@field variable string? with another URL; default: NAME_BASE_URL
---@field complete (fun(value: string): string)? the URL for a value of the variable
---@field cut string? a pattern of what the URL may have at its end
---@field form ponder.model.Provider? default: ponder.model.openai
---@field needs_key boolean? the service refuses calls without a key
---@field key_header string? default: authorization, as a Bearer token
---@field token string? the variable of a key that is sent as a Bearer token all the same
---@field headers table<string, string>?
---@field header_variables table<string, string>? headers from the environment
---@field family "openai"? whose rules on models it shares
---@field rules ponder.model.Rule[]? on options (ponder.model.params), besides those of its form
---@field renames table<string, string>? fields of the body, by our name
---@field splits boolean? it gives one sample a request
---@field max_n integer? most samples of a request, where fewer than 128 or not documented
---@field json_only boolean? no schema: JSON, with the schema in the system prompt
---@field without string[]? fields of messages that it refuses
---@field effort (fun(body: table, effort: string))? sets the effort of reasoning in the body
---@field is_own boolean? of the user's config file: it may have any endpoint
---@field prefill (fun(body: table, text: string))? has the model continue a text
---@field batch ponder.model.BatchForm|false|nil its batches
---@field other_port integer? is tried if nothing listens at the port of `base_url`

local function refuses(service, ...)
    return { { option = { ... }, why = service .. " does not accept it" } }
end

-- Templates of local servers turn thinking off by an argument.
local function by_template(body, effort)
    if effort == "none" then
        body.chat_template_kwargs = { enable_thinking = false }
    else
        body.reasoning_effort = effort
    end
end

-- Adds the beginning of the reply as the last message.
local function begin_reply(body, text, more)
    local last = { role = "assistant", content = text }
    body.messages[#body.messages + 1] = options.merge(last, more)
    return body
end

local function continue_final(body, text)
    begin_reply(body, text).continue_final_message = true
    body.add_generation_prompt = false
end

local function mark_prefix(body, text) begin_reply(body, text, { prefix = true }) end

---------------------------------------------------------------------------------------------------
-- Gemini's batches: in OpenAI's form, but for the files, which are Gemini's own.

---@type ponder.model.BatchForm
local gemini_batch = options.merge({}, openai.batch)
gemini_batch.paths = { ["/chat/completions"] = true }

-- The address of a file, and the header for Gemini's own requests.
local function gemini_file(target, what)
    local key = (target.headers.authorization or ""):gsub("^Bearer ", "")
    return target.base_url:gsub("/v1beta/openai$", "") .. what,
        { authorization = false, ["x-goog-api-key"] = key }
end

function gemini_batch.upload(ask, text, key, target)
    local url, headers = gemini_file(target, "/upload/v1beta/files")
    local kind = "application/jsonl"
    options.merge(headers, { ["x-goog-upload-protocol"] = "resumable",
        ["x-goog-upload-command"] = "start", ["x-goog-upload-header-content-type"] = kind,
        ["x-goog-upload-header-content-length"] = tostring(#text) })
    local started, problem, _, result = ask { url = url, method = "POST", headers = headers,
        body = json.encode { file = { display_name = "ponder-" .. key } } }
    if not started then return nil, problem end
    local to, host = result.headers["x-goog-upload-url"] or "", url:match "^%a+://[^/]+/"
    if to:sub(1, #host) ~= host then
        return nil, retry.failure("BAD_REPLY", "the service names no address for a file")
    end
    local decoded
    decoded, problem = ask { url = to, method = "POST", body = text, headers = {
        authorization = false, ["content-type"] = kind, ["x-goog-upload-offset"] = "0",
        ["x-goog-upload-command"] = "upload, finalize" } }
    return read.text(decoded, "file", "name"), problem
end

function gemini_batch.create(file, _, path)
    return json.encode { input_file_id = file, endpoint = "/v1" .. path, completion_window = "24h" }
end

function gemini_batch.status(batch)
    local status = openai.batch.status(batch)
    for i, path in ipairs(status.results) do
        status.results[i] = path:match "^/files/(.*)/content$"
    end
    status.key = false -- it keeps no metadata
    return status
end

function gemini_batch.download(target, file)
    local url, headers = gemini_file(target, ("/download/v1beta/%s:download?alt=media"):format(
        file:find "^files/" and file or "files/" .. file))
    return { url = url, headers = headers }
end

---@type table<string, ponder.model.EndpointRow>
endpoints.LIST = {
    openai = { base_url = "https://api.openai.com/v1", needs_key = true, batch = openai.batch,
        header_variables = { ["openai-organization"] = "OPENAI_ORG_ID",
            ["openai-project"] = "OPENAI_PROJECT_ID" } },
    anthropic = { base_url = "https://api.anthropic.com", needs_key = true, form = anthropic,
        cut = "/v1$", key_header = "x-api-key", token = "ANTHROPIC_AUTH_TOKEN", splits = true,
        headers = { ["anthropic-version"] = "2023-06-01" }, batch = anthropic.batch },
    ollama = { base_url = "http://127.0.0.1:11434", form = ollama, variable = "OLLAMA_HOST",
        complete = ollama.url_of_host, splits = true },
    gemini = { base_url = "https://generativelanguage.googleapis.com/v1beta/openai",
        needs_key = true, batch = gemini_batch, max_n = 8, rules = refuses("Gemini",
            "frequency_penalty", "presence_penalty", "seed", "top_k", "min_p") },
    azure = { base_url = function(env)
            local at = env "AZURE_OPENAI_ENDPOINT"
            return at and at:gsub("/+$", "") .. "/openai/v1", "AZURE_OPENAI_ENDPOINT"
        end,
        needs_key = true, key_header = "api-key", family = "openai",
        rules = refuses("Azure OpenAI", "top_k", "min_p") },
    bedrock = { base_url = function(env)
            local region = env "AWS_REGION" or env "AWS_DEFAULT_REGION"
            return env "AWS_BEDROCK_BASE_URL" or region
                and ("https://bedrock-runtime.%s.amazonaws.com/openai/v1"):format(region),
                "AWS_REGION"
        end,
        needs_key = true, family = "openai", splits = true,
        rules = refuses("Bedrock", "top_k", "min_p") },
    openrouter = { base_url = "https://openrouter.ai/api/v1", needs_key = true, splits = true,
        family = "openai", rules = { { option = "reasoning_tokens", action = "keep" } },
        effort = function(body, effort) body.reasoning = { effort = effort } end },
    groq = { base_url = "https://api.groq.com/openai/v1", needs_key = true, splits = true,
        rules = refuses("Groq", "logprobs", "top_k", "min_p"), without = { "name" } },
    deepseek = { base_url = "https://api.deepseek.com", needs_key = true, splits = true,
        json_only = true, rules = {
            { option = { "top_k", "min_p", "seed" }, why = "DeepSeek does not accept it" },
            { option = { "temperature", "top_p", "frequency_penalty", "presence_penalty" },
              when = openai.reasons, why = "DeepSeek ignores it while the model thinks" } },
        effort = function(body, effort)
            if effort == "none" then
                body.thinking = { type = "disabled" }
            else
                body.reasoning_effort = effort
            end
        end },
    mistral = { base_url = "https://api.mistral.ai/v1", needs_key = true,
        rules = refuses("Mistral", "logprobs", "top_k", "min_p"), prefill = mark_prefix,
        renames = { seed = "random_seed" }, without = { "reasoning_content" } },
    xai = { base_url = "https://api.x.ai/v1", needs_key = true,
        rules = { { option = { "presence_penalty", "frequency_penalty", "top_k", "min_p" },
              why = "xAI does not accept it" },
            { option = "stop", when = openai.reasons,
              why = "reasoning models do not accept stop sequences" } } },
    together = { base_url = "https://api.together.ai/v1", needs_key = true,
        prefill = begin_reply },
    vllm = { base_url = "http://localhost:8000/v1", effort = by_template,
        prefill = continue_final },
    llamacpp = { base_url = "http://localhost:8080/v1", other_port = 9931, effort = by_template,
        prefill = begin_reply },
    lmstudio = { base_url = "http://localhost:1234/v1", effort = by_template, max_n = 1 },
}

local function variable_of(known, suffix)
    return known:upper():gsub("[^%w]", "_") .. suffix
end

local function host_of(url) return url:match "^%a+://[^/?#]+" end

-- The endpoint of a row: from model.open's options, else the environment, else the config file.
local function configure(known, row, opts, env, file)
    local default, missing = row.base_url, nil
    if type(default) == "function" then
        default, missing = default(env)
    end
    local variable = row.variable or variable_of(known, "_BASE_URL")
    local set = env(variable)
    local url = opts.base_url or set and (row.complete or tostring)(set) or file.base_url or default
    if not url then return nil, ("%s is not set (the address of %s)"):format(missing, known) end
    if url == file.base_url then name.check_url(url, env) end
    local variables = environment.names("key", known)
    variables[1] = variables[1] or variable_of(known, "_API_KEY")
    local key, from = opts.api_key, "the option api_key"
    for _, its in ipairs(variables) do
        if not key then
            key, from = env(its), "$" .. its
        end
    end
    if not key then
        key, from = file.api_key, "config.lua"
    end
    key = name.key(key)
    local is_home = default ~= nil and host_of(url) == host_of(default)
    if not key and row.needs_key and is_home then
        return nil, ("%s is not set (%s)"):format(variables[1], variables[2]
            and "nor " .. variables[2] or "a key, or base_url for a server that needs none")
    end
    local headers = options.merge({}, row.headers)
    for header, its in pairs(row.header_variables or {}) do headers[header] = env(its) end
    if row.key_header and from ~= "$" .. tostring(row.token) then
        headers[row.key_header] = key
    else
        headers.authorization = key and "Bearer " .. key
    end
    local endpoint, problem = name.endpoint(url, key, headers, key and from,
        opts.base_url and "base_url" or "$" .. variable)
    if not endpoint then return nil, problem end
    endpoint.is_home = is_home
    if row.cut then endpoint.base_url = endpoint.base_url:gsub(row.cut, "") end
    if row.other_port and url == row.base_url then
        endpoint.other_url = url:gsub(":%d+", ":" .. row.other_port)
    end
    return endpoint
end

---A provider for a row.
---@param known string its name, the part of model names before the colon
function endpoints.provider(known, row)
    local form = row.form or openai
    return options.merge(options.merge({}, form), { name = known, row = row,
        batch = row.batch or false, looks_like = known == form.name and form.looks_like or {},
        configure = function(opts, env, file) return configure(known, row, opts, env, file) end })
end

---All built-in providers.
---@return table<string, ponder.model.Provider>
function endpoints.providers()
    local all = { script = script, pool = pool }
    for known, row in pairs(endpoints.LIST) do
        all[known] = endpoints.provider(known, row)
    end
    return all
end

---Adds the providers that a config file names by an address.
---@param providers table<string, ponder.model.Provider> changed
function endpoints.add(providers, settings)
    for known, its in pairs(settings.providers or {}) do
        if not providers[known] and type(its) == "table" and its.base_url then
            providers[known] = endpoints.provider(known, { base_url = its.base_url,
                is_own = true })
        end
    end
end

return endpoints
