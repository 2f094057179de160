--- `ponder pool record`: makes a recorded pool (ponder.model.pool) from a log.

local cli = require "ponder.cli.shared.main"
local json = require "ponder.json"
local opened = require "ponder.cli.shared.opened"
local options = require "ponder.base.options"
local outputs = require "ponder.cli.shared.outputs"

local command = cli.command({ files = true }, {
    { "field", value = "NAME", help = "where a line has its replies (default: the policy's name in "
        .. "an evaluation, else the model's)" },
    { "model", value = "NAME", help = "only calls of this model, such as gpt-4o-mini" },
    { "policy", value = "NAME", help = "only calls of this policy of an evaluation" },
    { "output", value = "FILE", files = true, help = "write there (default: standard output)" },
})

command.summary = "make a pool of recorded replies from a log"

command.about = [[
ponder pool record [OPTION...] [FILE|NAME|N]

Writes the answered calls of the newest run, or of the one with that log path, or that name or
number in ponder log, with the runs that it started, as a pool: a JSON object a line for each input,
the text of a call's last message. The model `pool:FILE#FIELD` then answers an input with the same
replies, at no cost and without a key:

  ponder eval --log run.db eval.lua
  ponder pool record --output answers.jsonl run.db
  ponder eval --model 'pool:answers.jsonl#io' eval.lua

Replies are numbered by their sample, those of a second equal call after those of the first; calls
that failed or were cancelled are left out, and later ones move up. The numbers of tokens are as
reported, shared out over the samples of one reply by length.]]

-- The text of the last message of a request, and the messages before it.
local function input_of(request)
    local messages = type(request) == "table" and request.messages
    local last = type(messages) == "table" and messages[#messages]
    local content = type(last) == "table" and last.content
    if type(content) == "table" then
        local texts = {}
        for _, part in ipairs(content) do
            texts[#texts + 1] = type(part) == "table" and type(part.text) == "string" and part.text
                or nil
        end
        content = table.concat(texts)
    end
    return type(content) == "string" and content or nil, type(messages) == "table"
        and json.encode { request.system or false, table.unpack(messages, 1, #messages - 1) } or ""
end

-- Adds the samples of an answered call to its line.
local function add(lines, call, labels, opts)
    local input, before = input_of(call.request)
    local samples = type(call.reply) == "table" and call.reply.samples
    if not input or call.status ~= "ok" or type(samples) ~= "table" then
        return
    end
    for _, sample in ipairs(samples) do
        if sample.finish_reason == "cancelled" then
            return
        end
    end
    local name = opts.field or labels.policy or tostring(call.model)
    local line = lines[input]
    if not line then
        line = { input = input, id = labels.item or (call.metadata or {}).id, fields = {},
            names = {} }
        lines[input], lines[#lines + 1] = line, line
    end
    local field = line.fields[name]
    if not field then
        field = { before = before, samples = {} }
        line.fields[name], line.names[#line.names + 1] = field, name
    end
    cli.expect(field.before == before, ("the input %s was asked after different messages; choose "
        .. "with --model or --policy, or name what you choose with --field"):format(
        options.show(input)))
    field.input_tokens = field.input_tokens or call.input_tokens
    local bytes = 0
    for _, sample in ipairs(samples) do
        bytes = bytes + #(sample.text or "")
    end
    for i, sample in ipairs(samples) do
        local share = bytes > 0 and #(sample.text or "") / bytes or 1 / #samples
        field.samples[#field.samples + 1] = { text = sample.text or "", place = #field.samples,
            number = call.sample + i - 1, occurrence = call.occurrence,
            tokens = call.output_tokens and math.floor(call.output_tokens * share + 0.5) }
    end
end

-- A line of the pool.
local function encode(line)
    local out = { id = line.id, input = line.input }
    for _, name in ipairs(line.names) do
        local field, places = line.fields[name], {}
        local answers, samples, tokens = json.array {}, json.array {}, json.array {}
        table.sort(field.samples, function(a, b)
            if a.occurrence ~= b.occurrence then
                return a.occurrence < b.occurrence
            elseif a.number ~= b.number then
                return a.number < b.number
            end
            return a.place < b.place
        end)
        for i, sample in ipairs(field.samples) do
            if not places[sample.text] then
                places[sample.text], answers[#answers + 1] = #answers, sample.text
            end
            samples[i], tokens[#tokens + 1] = places[sample.text], sample.tokens
        end
        out[name] = { answers = answers, samples = samples, input_tokens = field.input_tokens,
            tokens = #tokens == #samples and tokens or nil }
    end
    return json.encode(out)
end

function command.run(opts, operands)
    cli.expect(operands[1] == "record" and not operands[3], "expected: ponder pool record [LOG]")
    cli.expect_flag("--field", not (opts.field == "id" or opts.field == "input"
        or opts.field and opts.field:find "#"), "expected a name without #, neither id nor input")
    return opened.run(1, { operands[2] }, function(log)
        local lines, models, names = {}, {}, {}
        local is_one = (operands[2] or ""):find "#%d+$"
        for _, number in ipairs(is_one and { log.number } or log:numbers()) do
            local run = log:other(number)
            local labels = run:run().labels or {}
            for call in run:contents() do
                models[tostring(call.model)] = true
                if labels.policy then
                    names[labels.policy] = true
                end
                if (not opts.model or call.model == opts.model)
                    and (not opts.policy or labels.policy == opts.policy) then
                    add(lines, call, labels, opts)
                end
            end
        end
        local function known(what, value, set)
            local list = options.names(set)
            return value and not set[value] and ("; no %s is %s%s: there %s"):format(what,
                options.show(value), options.hint(value, list), list[1] and "are "
                .. table.concat(list, ", ") or "are none") or ""
        end
        cli.need(lines[1], ("%s: no answered calls%s, so no pool%s%s"):format(log.path,
            (opts.model or opts.policy) and " that match" or "", known("model", opts.model, models),
            known("policy", opts.policy, names)))
        return outputs.stream(opts.output, function(out)
            for _, line in ipairs(lines) do
                out:write(encode(line), "\n")
            end
        end)
    end)
end

return command
