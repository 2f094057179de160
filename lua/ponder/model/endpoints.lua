--- Services and servers that speak OpenAI's chat completions, as data: where they are, and what
--- they refuse or name otherwise. The variables with their keys are in ponder.base.environment.
---
---     local m = model.open "groq:openai/gpt-oss-120b"
---
--- Another one is three lines of config.lua:
---
---     return { providers = {
---         mine = { base_url = "https://llm.example/v1", api_key = "$MINE_KEY" },
---     } }
---
--- Facts of November 2026, from the services' documentation and their clients' sources.

local environment = require "ponder.base.environment"
local json = require "ponder.json"
local openai = require "ponder.model.openai"
local name = require "ponder.model.name"
local options = require "ponder.base.options"
local read = require "ponder.model.read"
local retry = require "ponder.model.retry"

local endpoints = {}

---@class ponder.model.EndpointRow
---@field base_url string|fun(env: fun(name: string): string?): string?, string? the URL; or nil and
---  what is not set
---@field needs_key boolean? it is refused without a key
---@field key_header string? default: authorization, as a Bearer token
---@field family "openai"? whose rules on models it shares (ponder.model.params)
---@field drops table<string, string>? options that it refuses, and why
---@field renames table<string, string>? fields of the body, by our name
---@field splits boolean? it gives one sample a request
---@field max_n integer? most samples of a request, where fewer than 128 or not documented
---@field json_only boolean? no schema: JSON, with the schema in the system prompt
---@field without string[]? fields of messages that it refuses
---@field effort (fun(body: table, effort: string))? sets the effort of reasoning in the body
---@field is_own boolean? of the user's config file: it may have any endpoint
---@field prefill (fun(body: table, text: string))? has the model continue a text
---@field batch ponder.model.BatchForm? its batches
---@field other_port integer? is tried if nothing listens at the port of `base_url`

local NOT_THERE = "%s does not accept it"

local function drops(service, ...)
    local why = {}
    for _, option in ipairs { ... } do
        why[option] = NOT_THERE:format(service)
    end
    return why
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
    gemini = { base_url = "https://generativelanguage.googleapis.com/v1beta/openai",
        needs_key = true, drops = drops("Gemini", "frequency_penalty", "presence_penalty", "seed",
            "top_k", "min_p"), batch = gemini_batch, max_n = 8 },
    azure = { base_url = function(env)
            local at = env "AZURE_OPENAI_ENDPOINT"
            return at and at:gsub("/+$", "") .. "/openai/v1", "AZURE_OPENAI_ENDPOINT"
        end,
        needs_key = true, key_header = "api-key", family = "openai",
        drops = drops("Azure OpenAI", "top_k", "min_p") },
    bedrock = { base_url = function(env)
            local region = env "AWS_REGION" or env "AWS_DEFAULT_REGION"
            return env "AWS_BEDROCK_BASE_URL" or region
                and ("https://bedrock-runtime.%s.amazonaws.com/openai/v1"):format(region),
                "AWS_REGION"
        end,
        needs_key = true, family = "openai", splits = true,
        drops = drops("Bedrock", "top_k", "min_p") },
    openrouter = { base_url = "https://openrouter.ai/api/v1", needs_key = true, splits = true,
        effort = function(body, effort) body.reasoning = { effort = effort } end },
    groq = { base_url = "https://api.groq.com/openai/v1", needs_key = true, splits = true,
        drops = drops("Groq", "logprobs", "top_k", "min_p"), without = { "name" } },
    deepseek = { base_url = "https://api.deepseek.com", needs_key = true, splits = true,
        json_only = true, drops = drops("DeepSeek", "top_k", "min_p", "seed"),
        effort = function(body, effort)
            if effort == "none" then
                body.thinking = { type = "disabled" }
            else
                body.reasoning_effort = effort
            end
        end },
    mistral = { base_url = "https://api.mistral.ai/v1", needs_key = true,
        drops = drops("Mistral", "logprobs", "top_k", "min_p"), prefill = mark_prefix,
        renames = { seed = "random_seed" }, without = { "reasoning_content" } },
    xai = { base_url = "https://api.x.ai/v1", needs_key = true,
        drops = drops("xAI", "presence_penalty", "frequency_penalty", "top_k", "min_p") },
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

-- The key of a row and where it comes from; or nil and a message.
local function find_key(known, row, opts, env, file)
    local variables = environment.names("key", known)
    variables[1] = variables[1] or variable_of(known, "_API_KEY")
    local key, from = name.key(opts.api_key), "the option api_key"
    for _, variable in ipairs(variables) do
        if not key then
            key, from = env(variable), "$" .. variable
        end
    end
    if not key then
        key, from = name.key(file.api_key), "config.lua"
    end
    if not key and row.needs_key then
        return nil, ("%s is not set%s"):format(variables[1],
            variables[2] and (" (nor %s)"):format(variables[2]) or "")
    end
    return key, key and from
end

---A provider for a row.
---@param known string its name, the part of model names before the colon
---@param row ponder.model.EndpointRow
---@return ponder.model.Provider
function endpoints.provider(known, row)
    local provider = setmetatable({ name = known, row = row, looks_like = {},
        batch = row.batch or false }, { __index = openai })
    function provider.configure(opts, env, file)
        local default, missing = row.base_url, nil
        if type(default) == "function" then
            default, missing = default(env)
        end
        local variable = variable_of(known, "_BASE_URL")
        if not default and not opts.base_url and not env(variable) and not file.base_url then
            return nil, ("%s is not set (the address of %s)"):format(missing, known)
        end
        local url, url_from = name.find_url(opts, env, file, variable, default)
        local key, key_from = find_key(known, row, opts, env, file)
        if not key and key_from then
            return nil, key_from
        end
        local header = row.key_header or "authorization"
        local endpoint, problem = name.endpoint(url, key,
            { [header] = key and (row.key_header and key or "Bearer " .. key) }, key_from, url_from)
        if endpoint and row.other_port and url == row.base_url then
            endpoint.other_url = url:gsub(":%d+", ":" .. row.other_port)
        end
        return endpoint, problem
    end
    return provider
end

---The providers of the list.
---@return table<string, ponder.model.Provider>
function endpoints.providers()
    local all = {}
    for known, row in pairs(endpoints.LIST) do
        all[known] = endpoints.provider(known, row)
    end
    return all
end

---Adds the providers that a config file names by an address.
---@param providers table<string, ponder.model.Provider> changed
---@param settings ponder.model.Config
function endpoints.add(providers, settings)
    for known, its in pairs(settings.providers or {}) do
        if not providers[known] and type(its) == "table" and its.base_url then
            providers[known] = endpoints.provider(known, { base_url = its.base_url,
                is_own = true })
        end
    end
end

return endpoints
