-- The named endpoints: where a request goes, with which key, and what of its options is sent.

local fake = require "model_fake"
local json = require "ponder.json"
local notice = require "ponder.base.notice"
local options = require "ponder.base.options"
local task = require "ponder.task"

local in_task = fake.in_task
local KEY = "key-0123456789abcdef"
local USER = { { role = "user", content = "Hi" } }

-- A client with these variables set.
local function client(env, answers, config)
    return fake.client(answers or { fake.reply("yes") }, { config = config or {},
        env = function(name) return env[name] end })
end

-- What is sent for one call: the transfer, its decoded body, and the reply.
local function sent(known, env, opts, answers, config)
    local transfer, reply, why
    local before = notice.listen(function() end)
    fake.run(function()
        local c, transport = client(env, answers, config)
        reply, why = c.open(known):chat(opts or { messages = USER })
        transfer = transport.sent[#transport.sent]
    end)
    notice.listen(before)
    return transfer, transfer and json.decode(transfer.body), reply, why
end

describe("a named endpoint", function()
    it("has an address and the variable of its key", function()
        for _, case in ipairs {
            { "gemini", "GEMINI_API_KEY",
                "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions" },
            { "gemini", "GOOGLE_API_KEY",
                "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions" },
            { "openrouter", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1/chat/completions" },
            { "groq", "GROQ_API_KEY", "https://api.groq.com/openai/v1/chat/completions" },
            { "deepseek", "DEEPSEEK_API_KEY", "https://api.deepseek.com/chat/completions" },
            { "mistral", "MISTRAL_API_KEY", "https://api.mistral.ai/v1/chat/completions" },
            { "xai", "XAI_API_KEY", "https://api.x.ai/v1/chat/completions" },
            { "together", "TOGETHER_API_KEY", "https://api.together.ai/v1/chat/completions" },
            { "vllm", "VLLM_API_KEY", "http://localhost:8000/v1/chat/completions" },
            { "llamacpp", "LLAMACPP_API_KEY", "http://localhost:8080/v1/chat/completions" },
            { "lmstudio", "LMSTUDIO_API_KEY", "http://localhost:1234/v1/chat/completions" },
        } do
            local transfer, body = sent(case[1] .. ":qwen/qwen3-8b:free", { [case[2]] = KEY })
            assert.same({ case[3], "Bearer " .. KEY, "qwen/qwen3-8b:free" },
                { transfer.url, transfer.headers.authorization, body.model }, case[1])
            local variable = case[1]:upper() .. "_BASE_URL"
            transfer = sent(case[1] .. ":m", { [case[2]] = KEY, [variable] = "http://box:1/v9/" })
            assert.equal("http://box:1/v9/chat/completions", transfer.url)
        end
    end)

    it("of Azure is the resource's, of Bedrock the region's", function()
        local transfer = sent("azure:gpt-6", { AZURE_OPENAI_API_KEY = KEY,
            AZURE_OPENAI_ENDPOINT = "https://me.openai.azure.com/" })
        assert.same({ "https://me.openai.azure.com/openai/v1/chat/completions", KEY },
            { transfer.url, transfer.headers["api-key"] })
        transfer = sent("bedrock:openai.gpt-oss", { AWS_BEARER_TOKEN_BEDROCK = KEY,
            AWS_DEFAULT_REGION = "eu-west-1" })
        assert.same({ "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1/chat/completions",
            "Bearer " .. KEY }, { transfer.url, transfer.headers.authorization })
    end)

    it("says which variable is missing", function()
        for known, variable in pairs { gemini = "GEMINI_API_KEY", azure = "AZURE_OPENAI_ENDPOINT",
            bedrock = "AWS_REGION", groq = "GROQ_API_KEY", xai = "XAI_API_KEY" } do
            assert.error_matches(function() client({}).open(known .. ":m") end,
                variable .. " is not set")
        end
        for _, known in ipairs { "vllm", "llamacpp", "lmstudio" } do
            assert.is_nil(sent(known .. ":m", {}).headers.authorization)
        end
    end)

    it("is three lines of the config file, too", function()
        local config = { providers = { mine = { base_url = "https://llm.example/v1",
            api_key = KEY } } }
        local transfer = sent("mine:a/b", {}, nil, nil, config)
        assert.same({ "https://llm.example/v1/chat/completions", "Bearer " .. KEY },
            { transfer.url, transfer.headers.authorization })
    end)

    it("of llama.cpp is tried at its coming port if nothing listens", function()
        local transfer, _, reply = sent("llamacpp:m", {}, nil,
            { { code = "CONNECT", error = "refused" }, fake.reply("yes") })
        assert.same({ "http://localhost:9931/v1/chat/completions", "yes" },
            { transfer.url, reply.text })
    end)
end)

describe("the options of a call", function()
    local ALL = { messages = USER, temperature = 0.5, top_p = 0.9, top_k = 5, min_p = 0.1,
        frequency_penalty = 0.2, presence_penalty = 0.3, seed = 7, logprobs = true, stop = "x" }
    local ENV = { GEMINI_API_KEY = KEY, GROQ_API_KEY = KEY, DEEPSEEK_API_KEY = KEY,
        MISTRAL_API_KEY = KEY, XAI_API_KEY = KEY, OPENAI_API_KEY = KEY, ANTHROPIC_API_KEY = KEY,
        OPENROUTER_API_KEY = KEY, TOGETHER_API_KEY = KEY }

    -- The names of the options that are not sent.
    local function dropped(known)
        local _, body, reply = sent(known, ENV, ALL)
        local names = {}
        for name in pairs(reply and reply.dropped or {}) do names[#names + 1] = name end
        table.sort(names)
        for _, name in ipairs(names) do assert.is_nil(body[name], name) end
        return table.concat(names, " "), body
    end

    it("are sent, or dropped with a reason, by what each service documents", function()
        for known, names in pairs {
            ["gemini:m"] = "frequency_penalty min_p presence_penalty seed top_k",
            ["groq:m"] = "logprobs min_p top_k",
            ["deepseek:m"] = "frequency_penalty min_p presence_penalty seed temperature top_k "
                .. "top_p",
            ["mistral:m"] = "logprobs min_p top_k",
            ["xai:m"] = "frequency_penalty min_p presence_penalty stop top_k",
            ["openai:gpt-4o"] = "min_p top_k",
            ["openai:gpt-6-luna"] = "frequency_penalty logprobs min_p presence_penalty stop "
                .. "temperature top_k top_p",
            ["openrouter:qwen/qwen3"] = "", ["together:m"] = "", ["vllm:m"] = "",
            ["llamacpp:m"] = "", ["lmstudio:m"] = "",
        } do
            assert.equal(names, (dropped(known)), known)
        end
    end)

    it("have the names of the service", function()
        local _, body = dropped "mistral:m"
        assert.same({ 7, nil }, { body.random_seed, body.seed })
        body = select(2, sent("vllm:m", {}, { messages = USER, reasoning_effort = "none" }))
        assert.same({ enable_thinking = false }, body.chat_template_kwargs)
        body = select(2, sent("deepseek:m", ENV, { messages = USER, reasoning_effort = "none" }))
        assert.same({ { type = "disabled" }, nil }, { body.thinking, body.reasoning_effort })
        body = select(2, sent("openrouter:m", ENV, { messages = USER, reasoning_effort = "low" }))
        assert.same({ effort = "low" }, body.reasoning)
        body = select(2, sent("openrouter:m", ENV, { messages = USER,
            reasoning = { max_output_tokens = 2000 } }))
        assert.same({ max_tokens = 2000 }, body.reasoning)
        body = select(2, sent("groq:m", ENV, { messages = { { role = "user", content = "Hi",
            name = "me" } } }))
        assert.is_nil(body.messages[1].name)
    end)

    it("are said once, and are an error where they must count", function()
        local lines = {}
        local before = notice.listen(function(line) lines[#lines + 1] = line end)
        notice.forget()
        fake.run(function()
            local c, transport = client(ENV)
            local m = c.open "groq:m"
            for _ = 1, 3 do m:chat { messages = USER, top_k = 3 } end
            local reply, message, code = m:chat { messages = USER, top_k = 3,
                strict_options = true }
            assert.same({ nil, "BAD_REQUEST" }, { reply, code })
            assert.matches("groq:m: top_k is not sent: ", message, 1, true)
            assert.equal(3, #transport.sent)
        end)
        notice.listen(before)
        assert.same({ "groq:m: top_k is not sent: Groq does not accept it" }, lines)
    end)

    it("of several samples are split where the service gives one", function()
        for _, known in ipairs { "groq", "deepseek", "openrouter" } do
            fake.run(function()
                local c, transport = client(ENV)
                c.open(known .. ":m"):chat { messages = USER, n = 3 }
                assert.equal(3, #transport.sent)
            end)
        end
    end)

    it("with a schema are JSON and the schema in the prompt, at DeepSeek", function()
        local _, body = sent("deepseek:m", ENV, { messages = USER,
            returns = { answer = "integer" } }, { fake.reply('{\\"answer\\":3}') })
        assert.equal("json_object", body.response_format.type)
        assert.matches('"answer"', body.messages[1].content, 1, true)
    end)
end)

describe("an error", function()
    local ENV = { GEMINI_API_KEY = KEY, MISTRAL_API_KEY = KEY, XAI_API_KEY = KEY }

    it("is read in the form of each service", function()
        for _, case in ipairs {
            { "gemini:m", '[{"error":{"code":400,"message":"Unknown name","status":"X"}}]',
                "Unknown name" },
            { "mistral:m", '{"object":"error","message":{"detail":[{"type":"extra_forbidden",'
                .. '"loc":["body","top_k"],"msg":"Extra inputs"}]}}', "Extra inputs (body.top_k)" },
            { "xai:m", '{"code":"Client specified an invalid argument","error":"Model M does not '
                .. 'support parameter stop."}', "Model M does not support parameter stop." },
        } do
            local _, _, _, message = sent(case[1], ENV, nil,
                { { status = 400, body = case[2] } })
            assert.matches(case[1] .. ": " .. case[3], message, 1, true)
        end
    end)
end)

describe("a prefix that siblings share", function()
    local ENV = { ANTHROPIC_API_KEY = KEY, OPENAI_API_KEY = KEY }

    local function content(known, opts)
        local call = options.merge({ messages = USER, prefix = "Book. " }, opts)
        local _, body = sent(known, ENV, call, { known:find "^anthropic"
            and { body = [[{"content":[{"type":"text","text":"x"}]}]] } or fake.reply "x" })
        return body.messages[#body.messages].content, body
    end

    it("is marked where the service has marks", function()
        assert.same({ { type = "text", text = "Book. ", cache_control = { type = "ephemeral" } },
            { type = "text", text = "Hi" } }, (content "anthropic:claude-haiku-4-5"))
        assert.equal("1h", content("anthropic:claude-haiku-4-5",
            { prompt_cache = "1h" })[1].cache_control.ttl)
        assert.equal("explicit",
            (content "openai:gpt-6-luna")[1].prompt_cache_breakpoint.mode)
        for known, opts in pairs { ["openai:gpt-5"] = {}, ["vllm:m"] = {},
            ["anthropic:claude-haiku-4-5"] = { prompt_cache = false } } do
            assert.equal("Book. Hi", (content(known, opts)), known)
        end
    end)

    it("marks the system prompt, too, where that is asked for", function()
        local _, body = content("anthropic:claude-haiku-4-5", { system = "S", prompt_cache = true })
        assert.same({ { type = "text", text = "S", cache_control = { type = "ephemeral" } } },
            body.system)
    end)

    it("is reserved in budgets at what writing it costs, for an hour, too", in_task(function()
        local bounds = {}
        local c = client(ENV)
        c.use(function(request)
            bounds[#bounds + 1] = request:upper_bound().cost
            return { samples = { { text = "x" } } }
        end)
        local m = c.open("anthropic:claude-haiku-4-5", { max_output_tokens = 1 })
        for _, cached in ipairs { true, "1h" } do
            m:chat { messages = USER, prefix = ("word "):rep(2000), prompt_cache = cached }
        end
        assert.near(2 / 1.25, bounds[2] / bounds[1], 0.01)
    end))

    it("has one call go first, and the others once it is answered", in_task(function()
        local c, transport = client({}, { function()
            return options.merge({ delay = 1 }, fake.reply "x")
        end })
        local m = c.open "vllm:m"
        local list = { 1, 2, 3, 4 }
        task.map(list, function(i)
            m:complete("Q" .. i, { prefix = "Book. " })
        end)
        assert.same({ 0, 1, 1, 1 }, transport.times)
        task.map(list, function(i) m:complete("Q" .. i) end)
        assert.same({ 2, 2, 2, 2 }, table.move(transport.times, 5, 8, 1, {}))
        assert.same({}, c.state.families) -- nothing is kept of them
    end))

    it("has the next one go first if the first one fails", in_task(function()
        local n = 0
        local c, transport = client({}, { function()
            n = n + 1
            return options.merge({ delay = 1 }, n == 1 and { status = 400, body = "{}" }
                or fake.reply "x")
        end })
        local m = c.open "vllm:m"
        task.map({ 1, 2, 3 }, function(i) m:complete("Q" .. i, { prefix = "Book. " }) end)
        assert.same({ 0, 1, 2 }, transport.times)
    end))
end)

describe("a reply that is continued", function()
    it("begins with the text, where the service can", function()
        local ENV = { ANTHROPIC_API_KEY = KEY, MISTRAL_API_KEY = KEY, GROQ_API_KEY = KEY }
        local _, body, reply = sent("vllm:m", {}, { messages = USER, prefill = "Step 1" },
            { fake.reply ": add" })
        assert.same({ "Step 1: add", true, false, { role = "assistant", content = "Step 1" } },
            { reply.text, body.continue_final_message, body.add_generation_prompt,
            body.messages[2] })
        _, body = sent("mistral:m", ENV, { messages = USER, prefill = "Step 1" })
        assert.is_true(body.messages[2].prefix)
        for _, known in ipairs { "groq:m", "anthropic:claude-sonnet-5-5" } do
            local transfer, _, none, message = sent(known, ENV, { messages = USER, prefill = "x" })
            assert.is_nil(transfer or none)
            assert.matches("cannot continue a reply", message)
        end
    end)

    it("is iterated by m:steps", in_task(function()
        local c, transport = client({}, {
            { body = [[{"choices":[{"message":{"content":"one"},"finish_reason":"stop",
                "stop_reason":"\\n\\n"}]}]] },
            { body = [[{"choices":[{"message":{"content":"two"},"finish_reason":"stop",
                "stop_reason":null}]}]] } })
        local steps = {}
        for step in c.open("vllm:m"):steps("Q", { stop = "\n\n" }) do
            steps[#steps + 1] = step
        end
        assert.same({ { "one", "two" }, 2 }, { steps, #transport.sent })
        assert.equal("one\n\n", json.decode(transport.sent[2].body).messages[2].content)
    end))
end)

describe("a model that is shut down soon", function()
    it("is said once when it is opened", function()
        local lines = {}
        local before = notice.listen(function(line) lines[#lines + 1] = line end)
        notice.forget()
        local c = fake.client({}, { now_s = function() return 1796000000 end }) -- 30 November 2026
        for _ = 1, 2 do
            c.open "openai:gpt-5"
            c.open "openai:gpt-6-luna"
            c.open "openai:gpt-5.1"
        end
        notice.listen(before)
        assert.same({ "openai:gpt-5 will be shut down on 2026-12-11" }, lines)
    end)
end)
