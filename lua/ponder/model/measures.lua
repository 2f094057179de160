--- What models say besides texts: vectors, ranks, log probabilities, choices and rewards, by the
--- endpoints of OpenAI-compatible servers. Each is a request like those of m:chat: logged, cached,
--- counted in budgets, retried and replayed.

local call = require "ponder.model.call"
local json = require "ponder.json"
local name = require "ponder.model.name"
local options = require "ponder.base.options"
local places = require "ponder.model.samples"
local read = require "ponder.model.read"
local scheduler = require "ponder.run.task.scheduler"
local tally = require "ponder.base.tally"

local measures = {}

local MAX_TEXTS = 2048 -- of one request for vectors
local MAX_TOKENS = 300000 -- of one such request, estimated

-- Which providers have which endpoint. OpenAI's own server has vectors and decisions only; a server
-- at another address may have any.
local HAVE = {
    vectors = { openai = true, azure = true, gemini = true, mistral = true, together = true,
        openrouter = true, vllm = true, llamacpp = true, lmstudio = true, ollama = true },
    ranks = { together = true, vllm = true, llamacpp = true },
    ["scores of given texts"] = { together = true, vllm = true, llamacpp = true, lmstudio = true },
    rewards = { vllm = true },
}

local function has(target, what)
    local row = target.provider.row
    if not target.base_url then return false end
    if target.name == "openai" then return what == "vectors" or not target.is_home end
    return HAVE[what][target.name] or row ~= nil and row.is_own or false
end

-- Sends a body to an endpoint below `base_url`; returns the decoded reply; or nil, message, code.
-- `label` stands for the request in the log.
local function post(model, base_url, path, body, label, opts)
    body.model = model.model
    local target = setmetatable({ url = name.join(base_url, path), provider = setmetatable({
        build = function() return body end,
        parse = function(reply)
            local usage = read.at(reply, "usage")
            return { samples = { { text = json.encode(reply) } }, usage = usage and {
                input_tokens = read.count(usage, "prompt_tokens"),
                output_tokens = read.count(usage, "completion_tokens") or 0 } }
        end }, { __index = model.target.provider }) }, { __index = model.target })
    if target.batch and not require("ponder.model.batch").path(target) then
        target.rates = target.full_rates
    end
    model.client.requests = model.client.requests + 1
    local one = call.request { number = model.client.requests, target = target,
        task = scheduler.current(),
        provider = model.provider, model = model.model,
        messages = { { role = "user", content = label } },
        options = { max_output_tokens = 0 }, n = 1, sample = opts.sample or 1, index_base = 0,
        limits = options.merge(options.merge({}, model.defaults), opts), stream = false,
        metadata = opts.metadata, cache = opts.cache == nil or opts.cache, has_emitted = false }
    local here = scheduler.context "samples"
    one.place = here and places.place(here, one)
    local draft, message, code = call.perform(model.client, one)
    if not draft then return nil, message, code or "SERVER" end
    return json.decode(draft.samples[1].text)
end

-- The same, if there is such an endpoint.
local function measure(model, what, path, body, label, opts)
    local base_url = model.target.base_url
    if not has(model.target, what) then
        return nil, ("%s has no endpoint for %s; nothing was sent"):format(model.target.label,
            what), "UNSUPPORTED"
    end
    if path == "/pooling" then base_url = base_url:gsub("/v1$", "") end -- vLLM's own
    return post(model, base_url, path, body, label, opts)
end

-- What `f` makes of each entry of a list, in the order of their `index`.
local function in_order(list, f)
    local found = {}
    for i, one in ipairs(list) do found[(read.count(one, "index") or i - 1) + 1] = f(one) end
    return found
end

local function bad_reply(target, what)
    return nil, ("%s: the reply has no %s"):format(target.label, what), "BAD_REPLY"
end

---------------------------------------------------------------------------------------------------
-- Vectors

-- The lists of texts of each request.
local function split(texts)
    local lists, tokens = { {} }, 0
    for _, text in ipairs(texts) do
        local list, its = lists[#lists], (tally.estimate(#text, 0, 1))
        if #list >= MAX_TEXTS or #list > 0 and tokens + its > MAX_TOKENS then
            list, tokens = {}, 0
            lists[#lists + 1] = list
        end
        list[#list + 1], tokens = text, tokens + its
    end
    return lists
end

---See ponder.model.Model.embed.
function measures.embed(model, texts, opts)
    local single, is_ollama = type(texts) == "string", model.target.name == "ollama"
    local vectors = {}
    for _, list in ipairs(split(single and { texts } or texts)) do
        local reply, message, code = measure(model, "vectors",
            is_ollama and "/api/embed" or "/embeddings", { input = json.array(list),
                dimensions = opts.dimensions, encoding_format = not is_ollama and "float" or nil },
            list[1] or "", opts)
        if not reply then return nil, message, code end
        local found = is_ollama and read.list(reply, "embeddings")
            or in_order(read.list(reply, "data"), function(one)
                return read.at(one, "embedding")
            end)
        for i = 1, #list do
            if type(found[i]) ~= "table" then
                return bad_reply(model.target, "vector for each text")
            end
            vectors[#vectors + 1] = found[i]
        end
    end
    return single and vectors[1] or vectors
end

---------------------------------------------------------------------------------------------------
-- Ranks and rewards

---See ponder.model.Model.rerank.
function measures.rerank(model, query, documents, opts)
    local reply, message, code = measure(model, "ranks", "/rerank", { query = query,
        documents = json.array(documents), top_n = opts.top_n }, query, opts)
    if not reply then return nil, message, code end
    local ranked = {}
    for i, one in ipairs(read.list(reply, "results")) do
        local index, score = read.count(one, "index"), read.at(one, "relevance_score")
        if not index or not documents[index + 1] or type(score) ~= "number" then
            return bad_reply(model.target, "index and score for each document")
        end
        ranked[i] = { index = index + 1, score = score, document = documents[index + 1] }
    end
    table.sort(ranked, function(a, b)
        return a.score > b.score or a.score == b.score and a.index < b.index
    end)
    return ranked
end

---See ponder.model.Model.reward.
function measures.reward(model, prompt, steps, opts)
    local inputs = {}
    for i = 1, #steps do
        inputs[i] = prompt .. "\n\n" .. table.concat(steps, "\n\n", 1, i)
    end
    local reply, message, code = measure(model, "rewards", "/pooling",
        { input = json.array(inputs) }, prompt, opts)
    if not reply then return nil, message, code end
    local rewards = in_order(read.list(reply, "data"), function(one)
        local value = read.at(one, "data") -- the last number of nested lists
        while type(value) == "table" do value = value[#value] end
        return type(value) == "number" and value or nil
    end)
    if #rewards ~= #steps then return bad_reply(model.target, "number for each step") end
    return rewards
end

---------------------------------------------------------------------------------------------------
-- Log probabilities of given texts

-- The tokens of a continuation in the tokens of prompt and continuation. A token across the border
-- counts whole; tokens after the text were generated and do not count. nil: the tokens do not spell
-- the text.
local function of_continuation(logprobs, prompt, continuation)
    local tokens, at, text = read.list(logprobs, "tokens"), 0, prompt .. continuation
    local numbers = read.list(logprobs, "token_logprobs")
    local sum, kept = 0.0, {}
    for i, token in ipairs(tokens) do
        if at >= #text then break end
        if type(token) ~= "string" or text:sub(at + 1, at + #token) ~= token then return nil end
        at = at + #token
        if at > #prompt then
            local value = numbers[i]
            if type(value) ~= "number" then return nil end
            sum = sum + value
            kept[#kept + 1] = value
        end
    end
    if at ~= #text then return nil end
    return { logprob = sum, tokens = #kept, logprobs = kept }
end

---See ponder.model.Model.score.
function measures.score(model, prompt, continuations, opts)
    local single, prompts = type(continuations) == "string", {}
    local list = single and { continuations } or continuations
    for i, one in ipairs(list) do prompts[i] = prompt .. one end
    local reply, message, code = measure(model, "scores of given texts", "/completions", {
        prompt = json.array(prompts), echo = true, max_tokens = 0, logprobs = 1 }, prompt, opts)
    if not reply then return nil, message, code end
    local found, scores = in_order(read.list(reply, "choices"), function(choice)
        return read.at(choice, "logprobs")
    end), {}
    for i, one in ipairs(list) do
        scores[i] = of_continuation(found[i], prompt, one)
        if not scores[i] then
            return nil, ("%s does not say the probabilities of a given text: its tokens do not "
                .. "spell it"):format(model.target.label), "UNSUPPORTED"
        end
    end
    return single and scores[1] or scores
end

---------------------------------------------------------------------------------------------------
-- Choices

local function softmax(scores)
    local most, sum, shares = -math.huge, 0.0, {}
    for _, one in ipairs(scores) do most = math.max(most, one.logprob) end
    for i, one in ipairs(scores) do
        shares[i] = math.exp(one.logprob - most)
        sum = sum + shares[i]
    end
    for i = 1, #shares do shares[i] = shares[i] / sum end
    return shares
end

local function best_of(choices, probabilities, method)
    local best = 1
    for i = 2, #choices do
        if probabilities[i] > probabilities[best] then best = i end
    end
    return choices[best], { index = best, probabilities = probabilities, method = method }
end

-- By OpenAI's endpoint for decisions.
local function decide(model, prompt, choices, opts)
    local values = {}
    for i, choice in ipairs(choices) do values[i] = { value = choice } end
    local reply, message, code = post(model, model.target.base_url, "/decisions", {
        input = prompt, questions = json.array { { type = "choice",
            choices = json.array(values) } } }, prompt, opts)
    if not reply then return nil, message, code end
    local answer, by_value, probabilities = read.list(reply, "answers", 1), {}, {}
    if read.text(answer, "type") == "refusal" then
        return nil, model.target.label .. ": the model refuses to choose", "CONTENT_FILTER"
    end
    for _, one in ipairs(read.list(answer, "probabilities")) do
        by_value[read.text(one, "value") or ""] = read.at(one, "probability")
    end
    for i, choice in ipairs(choices) do
        probabilities[i] = type(by_value[choice]) == "number" and by_value[choice]
            or answer.choice == choice and 1.0 or 0.0
    end
    return best_of(choices, probabilities, "decisions")
end

---See ponder.model.Model.choose. `complete` asks the model for a typed answer.
function measures.choose(model, prompt, choices, opts, complete)
    local target = model.target
    if target.base_url and has(target, "scores of given texts") then
        local scores, message, code = measures.score(model, prompt, choices, opts)
        if scores then return best_of(choices, softmax(scores), "score") end
        if code ~= "UNSUPPORTED" then return nil, message, code end
    elseif target.base_url and target.name == "openai" and model.model == "gpt-6-luna" then
        return decide(model, prompt, choices, opts)
    end
    local answer, message, code = complete(prompt, { type = "object", required = { "choice" },
        additionalProperties = false,
        properties = { choice = { type = "string", enum = choices } } })
    if answer == nil then return nil, message, code end
    local probabilities = {}
    for i, choice in ipairs(choices) do probabilities[i] = choice == answer.choice and 1 or 0 end
    return best_of(choices, probabilities, "schema")
end

return measures
