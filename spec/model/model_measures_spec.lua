-- Vectors, ranks, rewards, log probabilities and choices.

local fake = require "model_fake"
local json = require "ponder.json"
local tally = require "ponder.base.tally"
local task = require "ponder.task"

local in_task = fake.in_task

local function open(known, answers, opts)
    local client, transport = fake.client(answers, { env = function(name)
        return name:find "_KEY$" and "sk-0123456789abcdefghij" or nil
    end })
    return client.open(known, opts), transport
end

local function body_of(transport, i) return json.decode(transport.sent[i or 1].body) end

describe("m:embed", function()
    it("gives vectors in the order of the texts", in_task(function()
        local m, transport = open("openai:text-embedding-3-small", { { body = [[{"data":[
            {"index":1,"embedding":[0.5,-1]},{"index":0,"embedding":[1,2.25]}],
            "usage":{"prompt_tokens":4,"total_tokens":4}}]] } })
        task.with_budget({ max_cost = 1 }, function()
            assert.same({ { 1, 2.25 }, { 0.5, -1 } }, m:embed({ "a", "b" }, { dimensions = 2 }))
            assert.same({ 4, 1, 8e-8 }, { task.spent().tokens, task.spent().calls,
                task.spent().cost })
        end)
        assert.matches("/v1/embeddings$", transport.sent[1].url)
        assert.same({ model = "text-embedding-3-small", input = { "a", "b" }, dimensions = 2,
            encoding_format = "float" }, body_of(transport))
    end))

    it("gives one vector for one text, and splits long lists", in_task(function()
        local function answer(opts)
            local data = {}
            for i, text in ipairs(json.decode(opts.body).input) do
                data[i] = { index = i - 1, embedding = { #text } }
            end
            return { body = json.encode { data = data } }
        end
        local m, transport = open("vllm:m", { answer })
        assert.same({ 3 }, m:embed "abc")
        local texts = {}
        for i = 1, 2049 do texts[i] = ("x"):rep(i % 7 + 1) end
        local vectors = m:embed(texts)
        assert.same({ 2049, 6, 3 }, { #vectors, vectors[2049][1], #transport.sent })
        local a_token = 12 // (tally.estimate(12, 0, 1) - 1) -- in bytes
        local half = ("x"):rep(149999 * a_token) -- of the 300,000 tokens of a request
        assert.equal(3, #m:embed { half, half, "x" })
        assert.equal(2, #m:embed { half .. half .. half, "x" })
        local sizes = {}
        for i = 4, #transport.sent do sizes[#sizes + 1] = #body_of(transport, i).input end
        assert.same({ 2, 1, 1, 1 }, sizes)
    end))

    it("asks each provider that has an endpoint", in_task(function()
        for name in ("openai azure gemini mistral together openrouter vllm llamacpp lmstudio "
            .. "ollama"):gmatch "%S+" do
            local m = open(name .. ":m", { { body = '{"data":[{"index":0,"embedding":[1]}],'
                .. '"embeddings":[[1]]}' } }, {
                base_url = name == "azure" and "https://x" or nil })
            assert.same({ 1 }, m:embed "x", name)
        end
        for _, name in ipairs { "together", "vllm", "llamacpp", "mine" } do
            local client = fake.client({ { body = '{"results":[{"index":0,"relevance_score":1}]}' },
                { body = '{"results":[{"index":1,"relevance_score":1}]}' } }, { config = {
                providers = { mine = { base_url = "https://x/v1", api_key = "sk-0123456789" } } },
                env = function(variable) return variable:find "_KEY$" and "sk-0123456789" end })
            local m = client.open(name .. ":m")
            assert.equal(1, m:rerank("q", { "a" })[1].score, name)
            assert.equal("BAD_REPLY", (select(3, m:rerank("r", { "a" }))))
        end
    end))

    it("is refused before it is sent where there is no endpoint", in_task(function()
        for _, known in ipairs { "anthropic:claude-haiku-4-5", "groq:m", "deepseek:m" } do
            local m, transport = open(known, { { body = "{}" } })
            local vectors, message, code = m:embed "x"
            assert.same({ nil, "UNSUPPORTED", 0 }, { vectors, code, #transport.sent })
            assert.matches("nothing was sent", message)
        end
        local client = fake.client {}
        client.register("play", { call = error })
        assert.equal("UNSUPPORTED", (select(3, client.open("play:m"):embed "x")))
    end))
end)

describe("m:rerank", function()
    it("gives the documents, best first", in_task(function()
        local m, transport = open("vllm:m", { { body = [[{"results":[
            {"index":0,"relevance_score":0.1},{"index":1,"relevance_score":0.5},
            {"index":3,"relevance_score":0.9},{"index":2,"relevance_score":0.9}]}]] } })
        assert.same({ { index = 3, score = 0.9, document = "c" },
            { index = 4, score = 0.9, document = "d" }, { index = 2, score = 0.5, document = "b" },
            { index = 1, score = 0.1, document = "a" } },
            m:rerank("q", { "a", "b", "c", "d" }, { top_n = 4 }))
        assert.matches("/v1/rerank$", transport.sent[1].url)
    end))
end)

describe("m:reward", function()
    it("gives a number for each step", in_task(function()
        local m, transport = open("vllm:prm", { { body = [=[{"data":[{"index":0,"data":[[0.2]]},
            {"index":1,"data":[0.3,0.8]}]}]=] } })
        assert.same({ 0.2, 0.8 }, m:reward("2+2?", { "think", "4" }))
        assert.matches("localhost:8000/pooling$", transport.sent[1].url)
        assert.same({ "2+2?\n\nthink", "2+2?\n\nthink\n\n4" }, body_of(transport).input)
    end))
end)

describe("m:score", function()
    local ECHO = [[{"choices":[{"index":0,"logprobs":{"tokens":["Is it"," hot","?"," ye","s","!"],
        "token_logprobs":[null,-1,-0.5,-0.25,-0.5,-9]}},{"index":1,"logprobs":{
        "tokens":["Is it"," hot","? n","o"],"token_logprobs":[null,-1,-2,-0.125]}}]}]]

    it("sums the log probabilities of the continuation's tokens", in_task(function()
        local transport
        for _, known in ipairs { "together:m", "lmstudio:m", "llamacpp:m", "vllm:m" } do
            local m, sent = open(known, { { body = ECHO } })
            local scores = m:score("Is it hot?", { " yes", " no" })
            assert.same({ { logprob = -0.75, tokens = 2, logprobs = { -0.25, -0.5 } },
                { logprob = -2.125, tokens = 2, logprobs = { -2, -0.125 } } }, scores, known)
            transport = sent
        end
        assert.same({ { "Is it hot? yes", "Is it hot? no" }, true, 0, 1 },
            { body_of(transport).prompt, body_of(transport).echo, body_of(transport).max_tokens,
            body_of(transport).logprobs })
    end))

    it("is refused where the tokens do not spell the text", in_task(function()
        local m = open("llamacpp:m", { { body = [[{"choices":[{"logprobs":{"tokens":["Hm"],
            "token_logprobs":[0]}}]}]] } })
        local score, _, code = m:score("a", "b")
        assert.same({ nil, "UNSUPPORTED" }, { score, code })
        local sent
        m, sent = open("openai:gpt-6-luna", { { body = "{}" } })
        assert.same({ nil, "UNSUPPORTED", 0 },
            { m:score("a", "b"), select(3, m:score("a", "b")), #sent.sent })
    end))

    it("is the basis of m:choose", in_task(function()
        local m = open("vllm:m", { { body = ECHO } })
        local choice, about = m:choose("Is it hot?", { " yes", " no" })
        assert.same({ " yes", 1, "score" }, { choice, about.index, about.method })
        local yes = 1 / (1 + math.exp(-2.125 + 0.75))
        assert.is_true(math.abs(about.probabilities[1] - yes) < 1e-12)
    end))
end)

describe("m:choose", function()
    it("asks OpenAI for a decision", in_task(function()
        local m, transport = open("openai:gpt-6-luna", { { body = [[{"answers":[{"choice":"no",
            "probabilities":[{"value":"no","probability":0.75},
            {"value":"yes","probability":0.25}]}]}]] } })
        local choice, about = m:choose("Hot?", { "yes", "no" })
        assert.same({ "no", 2, { 0.25, 0.75 }, "decisions" },
            { choice, about.index, about.probabilities, about.method })
        assert.matches("/v1/decisions$", transport.sent[1].url)
    end))

    it("asks others for a typed answer", in_task(function()
        local m = open("groq:m", { fake.reply '{\\"choice\\":\\"no\\"}' })
        local choice, about = m:choose("Hot?", { "yes", "no" })
        assert.same({ "no", { 0, 1 }, "schema" }, { choice, about.probabilities, about.method })
    end))
end)
