--- POST /v1/embeddings, as in OpenAI's API: passed through to the model of `embeddings`.

local base64 = require "ponder.base.base64"
local budgets = require "ponder.run.task.budget"
local errors = require "ponder.serve.http.errors"
local fields = require "ponder.serve.http.fields"
local json = require "ponder.json"

local embeddings = { error = errors.openai }

local KNOWN = { model = "string", input = "any", encoding_format = "string",
    dimensions = "number", user = "string" }
local MAX_TEXTS = 2048

-- A vector as little-endian single floats in base64, as OpenAI's own client asks for.
local function packed(vector)
    local parts = {}
    for i, x in ipairs(vector) do
        parts[i] = string.pack("<f", x)
    end
    return base64.encode(table.concat(parts))
end

---Answers a request; raises a ponder.serve.Error if a field is wrong.
function embeddings.answer(server, r, _, key)
    if not server.opts.embeddings then
        return server:refuse(r, errors.new(404, "model_not_found",
            "there is no model for embeddings here (ponder serve --embeddings NAME)"))
    end
    local given = fields.sort(fields.body(r.body), KNOWN)
    local m, texts = server.opts.embeddings, fields.required(given, "input")
    texts = type(texts) == "string" and { texts } or texts
    if not fields.are_texts(texts, MAX_TEXTS, math.huge) or #texts == 0 then
        error(fields.wrong("input", ("input must be a text, or a list of 1 to %d texts that are "
            .. "not empty"):format(MAX_TEXTS)), 0)
    end
    r.policy = m.name
    local slot <close>, full = server:admit()
    if not slot then
        return server:refuse(r, full)
    end
    local account = budgets.new {}
    local vectors, message, code = server:within_budgets(key, budgets.within, account, m.embed, m,
        texts, { dimensions = fields.integer(given, "dimensions", 1) })
    local spent = account:account()
    server:count_spent({ policy = m }, spent)
    if not vectors then
        server.opts.log(("%s: request %s: %s"):format(m.name, r.request_id, message))
        local err = errors.of_policy(m.name, { message = message, code = code or "ERROR" })
        r.code = err.code
        return server:refuse(r, err)
    end
    local data = json.array {}
    for i, vector in ipairs(vectors) do
        data[i] = { object = "embedding", index = i - 1,
            embedding = given.encoding_format == "base64" and packed(vector) or vector }
    end
    local tokens = spent.usage.input_tokens or 0
    server:reply(r, 200, { object = "list", data = data, model = given.model or m.name,
        usage = { prompt_tokens = tokens, total_tokens = tokens } })
end

return embeddings
