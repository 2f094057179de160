--- The calls that scripts make: options, samples, JSON replies. ponder.model.call sends the
--- requests of a call.

local options = require "ponder.base.options"
local task = require "ponder.task"
local call = require "ponder.model.call"
local notice = require "ponder.base.notice"
local params = require "ponder.model.params"
local quote = require "ponder.quote"
local read = require "ponder.model.read"
local places = require "ponder.model.samples"
local retry = require "ponder.model.retry"
local scheduler = require "ponder.run.task.scheduler"
local schema = require "ponder.model.schema"
local tally = require "ponder.base.tally"

local chat = {}

--- Options of a call. model.open accepts them, too, as defaults.
---@type table<string, OptionRule>
chat.OPTIONS = {
    system = { type = { "string", "table" } },
    n = { type = "integer", min = 1, max = 1024 },
    temperature = { type = "number", min = 0, finite = true },
    top_p = { type = "number", min = 0, max = 1 },
    top_k = { type = "integer", min = 1 },
    min_p = { type = "number", min = 0, max = 1 },
    frequency_penalty = { type = "number", min = -2, max = 2 },
    presence_penalty = { type = "number", min = -2, max = 2 },
    max_output_tokens = { type = "integer", min = 1, was = "max_tokens" },
    stop = { type = { "string", "table" } },
    seed = { type = "integer" },
    response_format = { type = { "string", "table" } },
    repair = { type = "boolean" },
    returns = { type = { "string", "table" } },
    logprobs = { type = { "boolean", "integer" }, min = 0 },
    tools = { type = "table" },
    tool_choice = { type = { "string", "table" } },
    reasoning_effort = { type = "string" },
    reasoning = { type = { "string", "table" },
        fields = { max_output_tokens = { type = "integer", min = 1, required = true } } },
    prefix = { type = "string" },
    prompt_cache = { type = { "boolean", "string" }, enum = { true, false, "1h" } },
    prefill = { type = "string" },
    strict_options = { type = "boolean" },
    on_delta = { type = "function" },
    timeout_ms = { type = "integer", min = 1 },
    connect_timeout_ms = { type = "integer", min = 1 },
    idle_timeout_ms = { type = "integer", min = 1 },
    max_body_bytes = { type = "integer", min = 1 },
    cross_host_redirects = { type = "boolean" },
    max_retries = { type = "integer", min = 0 },
    cache = { type = { "boolean", "string" }, enum = { true, false, "shared" } },
    sample = { type = "integer", min = 1 },
    metadata = { type = "table" },
    extra = { type = "table" },
}

local CALL = { messages = { type = "table", required = true } }
options.merge(CALL, chat.OPTIONS)

-- The options that are sent to the model, and so checked by ponder.model.params.
local SENT = { "n", "temperature", "top_p", "top_k", "min_p", "frequency_penalty",
    "presence_penalty", "max_output_tokens", "stop", "seed", "logprobs", "tools", "tool_choice",
    "reasoning_effort", "reasoning_tokens" }

local SEED = { "seed" }

local ROLE = { type = "string", enum = { "system", "developer", "user", "assistant", "tool" } }
local IS_ROLE = {}
for _, role in ipairs(ROLE.enum) do IS_ROLE[role] = true end

local function check_messages(messages, level)
    if #messages == 0 then error("model.chat: opts.messages is empty", level) end
    for i, message in ipairs(messages) do
        local role, mistake = type(message) == "table" and message.role, nil
        local kind = role and type(message.content)
        if type(role) ~= "string" then
            mistake = " must be a table with a role (got " .. options.show(message) .. ")"
        elseif not IS_ROLE[role] then
            mistake = ".role " .. select(2, options.check_value(role, ROLE))
        elseif kind ~= "string" and kind ~= "table"
            and not (role == "assistant" and kind == "nil") then
            mistake = ".content must be a string or a list of parts (got "
                .. options.show(message.content) .. ")"
        end
        if mistake then error(("model.chat: opts.messages[%d]%s"):format(i, mistake), level) end
    end
end

-- Tools as sent to the model, without `run`.
local function read_tools(tools, level)
    local out = {}
    for i, tool in ipairs(tools) do
        if type(tool) ~= "table" or type(tool.name or tool.type) ~= "string" then
            error(("model.chat: opts.tools[%d] must be a table with a name (got %s)"):format(i,
                options.show(tool)), level)
        end
        local mistake = schema.mistake(tool.parameters)
        if mistake then
            error(("model.chat: opts.tools[%d].parameters: %s"):format(i, mistake), level)
        end
        out[i] = options.merge({}, tool)
        out[i].run, out[i].parameters = nil, schema.with_lists(tool.parameters)
    end
    return out
end

-- The mark that has a service keep a part of a prompt in its cache; nil: it has no marks.
local function mark_of(model, all)
    local mark = model.target.provider.mark
    return all.prompt_cache ~= false and mark
        and mark(model.target, all.prompt_cache == "1h") or nil
end

-- The messages, the last one of the user with the prefix that siblings share.
local function with_prefix(model, all)
    local messages, at = table.move(all.messages, 1, #all.messages, 1, {}), #all.messages
    while at > 0 and messages[at].role ~= "user" do at = at - 1 end
    local last, mark = messages[at], mark_of(model, all)
    if not last or type(last.content) ~= "string" then return all.messages end
    messages[at] = options.merge({}, last)
    messages[at].content = mark and {
        options.merge({ type = "text", text = all.prefix }, mark),
        { type = "text", text = last.content } } or all.prefix .. last.content
    return messages
end

-- The plan of a call: its options merged with those of the open model. `all` are all options,
-- `kept` those that are sent. `level` is the error level: 1 is this function.
local function prepare(model, opts, level)
    local all = options.check("model.chat", opts, CALL, level)
    check_messages(all.messages, level + 1)
    for option, value in pairs(model.defaults) do
        if all[option] == nil then all[option] = value end
    end
    if all.tools then all.tools = read_tools(all.tools, level + 1) end
    local format, message
    if all.response_format then format, message = schema.format(all.response_format) end
    if all.returns ~= nil then
        if opts.response_format then
            message = "model.chat: give opts.returns or opts.response_format, not both"
        else
            format, message = schema.returns(all.returns)
            message = message and "model.chat: " .. message
        end
    end
    if message then error(message, level) end
    if type(all.reasoning) == "table" then
        all.reasoning_tokens = all.reasoning.max_output_tokens
    elseif all.reasoning then
        all.reasoning_effort = all.reasoning
    end
    local mark = all.prompt_cache and type(all.system) == "string" and mark_of(model, all)
    if all.logprobs == false then all.logprobs = nil end
    if all.n == 1 then all.n = nil end -- the same request as without
    if type(all.stop) == "table" and #all.stop == 0 then all.stop = nil end -- not {}, an object
    if all.tools and #all.tools == 0 then all.tools, all.tool_choice = nil, nil end
    local kept, dropped, split = params.apply(model.target, all, SENT)
    return { all = all, kept = kept, dropped = dropped, split = split, format = format,
        n = all.n or 1, first = all.sample or 1,
        system = mark and { options.merge({ type = "text", text = all.system }, mark) }
            or all.system,
        messages = all.prefix and with_prefix(model, all) or all.messages }
end

---How many samples of a call one request may ask for without changing them: 1 where each has a seed
---of its own.
---@param model any an open model, or a custom one; one with `takes_n` passes `n` on to an open one
---@param opts table options of the call
function chat.samples_per_request(model, opts)
    local is_custom = rawget(model, "chat") and not rawget(model, "takes_n")
    if is_custom or not model.target or not model.client then return 1 end
    local here, defaults = scheduler.context "samples", model.defaults
    local has_seed = opts.seed or defaults.seed or here and here.seed
    return has_seed and 1 or params.samples_per_request(model.target,
        options.merge(options.merge({}, defaults), opts))
end

-- Asks for `n` samples of a call, numbered on from `offset`, in the task `t`.
local function ask(model, plan, t, n, offset)
    local all, kept, sample, client = plan.all, plan.kept, plan.first + offset, model.client
    if kept.seed and sample > 1 then -- else all samples would be equal
        kept = options.merge({}, kept)
        kept.seed = kept.seed + sample - 1
    end
    client.requests = client.requests + 1
    local one = call.request { number = client.requests, target = model.target, task = t,
        provider = model.provider, model = model.model, messages = plan.messages,
        system = plan.system, options = kept, format = plan.format, extra = all.extra, n = n,
        sample = sample, index_base = offset, limits = all, stream = all.on_delta ~= nil,
        on_delta = all.on_delta, metadata = all.metadata,
        cache = all.cache == nil or all.cache, has_emitted = false, dropped = plan.dropped,
        prefix = all.prefix, prefill = all.prefill }
    local here = t.context and t.context.samples
    if here then
        one.place = places.place(here, one)
        local seed = places.seed(here, one, all.seed or all.extra and all.extra.seed)
        if seed then
            local accepted = params.apply(model.target, options.merge({ seed = seed }, all), SEED)
            one.options = options.merge(options.merge({}, kept), accepted)
            one:build()
        end
    end
    local draft, message, code, partial = call.perform(client, one)
    if not draft then
        return nil, message or model.target.label .. ": no reply and no reason", code or "SERVER",
            partial
    end
    if one.prefill then
        for _, its in ipairs(draft.samples) do
            its.text = one.prefill .. (its.text or "")
        end
    end
    if one.stream and not one.has_emitted then one:emit_reply(draft) end -- from a log or a cache
    return draft
end

---------------------------------------------------------------------------------------------------
-- Several samples

local function add_usage(a, b)
    if not a or not b then return a or b end
    local sum = tally.add(tally.add({}, a), b)
    sum.implausible = a.implausible or b.implausible
    return tally.clean(sum)
end

-- nil (unknown) if either is.
local function add_cost(a, b) return a and b and a + b end

local function latest(a, b) return a and b and math.max(a, b) or a or b end

-- One draft from two: the samples of both, in order.
local function join(a, b)
    if not a then return b end
    local samples = table.move(a.samples, 1, #a.samples, 1, {})
    table.move(b.samples, 1, #b.samples, #samples + 1, samples)
    local raw = a.joined and a.raw or { a.raw }
    raw[#raw + 1] = b.raw
    return { samples = samples, model = a.model, id = a.id,
        usage = add_usage(a.usage, b.usage), cost = add_cost(a.cost, b.cost),
        attempts = read.sum(a.attempts, b.attempts),
        latency_ms = latest(a.latency_ms, b.latency_ms),
        time_to_first_ms = latest(a.time_to_first_ms, b.time_to_first_ms),
        truncated = a.truncated or b.truncated, scripted = a.scripted or b.scripted,
        recorded = a.recorded or b.recorded, raw = raw,
        origin = a.origin == b.origin and a.origin or nil, joined = true }
end

-- Makes a concurrent call for each sample; fails if one fails.
local function ask_each(model, plan, count, offset, draft)
    local numbers = {}
    for i = 1, count do numbers[i] = offset + i - 1 end
    local drafts, errors = task.map(numbers, function(number)
        return ask(model, plan, scheduler.current(), 1, number)
    end, { concurrency = count })
    local message, code
    for i = 1, count do
        if drafts[i] then
            draft = join(draft, drafts[i])
        elseif not message then
            message, code = errors[i].message, errors[i].code -- ask always gives both
        end
    end
    if message then return nil, message, code, draft end
    return draft
end

-- Servers may refuse n, or ignore it: then ask for the missing samples one by one.
local function ask_all(model, plan, t)
    local n, target = plan.n, model.target
    if n > 1 and (plan.split or target.one_by_one) then
        return ask_each(model, plan, n, 0, nil)
    end
    local draft, message, code, partial = ask(model, plan, t, n, 0)
    if code == "BAD_REQUEST" and n > 1 and not partial then
        draft = ask(model, plan, t, 1, 0)
        if not draft then return nil, message, code end -- n was not the reason
        target.one_by_one = true
        return ask_each(model, plan, n - 1, 1, draft)
    end
    local have = draft and #draft.samples or n
    if have >= n or draft.truncated then return draft, message, code, partial end
    target.one_by_one = target.one_by_one or have == 1
    return ask_each(model, plan, n - have, have, draft)
end

---------------------------------------------------------------------------------------------------
-- The reply

-- The reply; and why nothing of it is usable, if that is so.
local function assemble(plan, draft)
    local samples, texts, refused = {}, {}, 0
    for i, sample in ipairs(draft.samples) do
        samples[i], texts[i] = sample, sample.text or ""
        if not sample.text and not sample.tool_calls then
            if sample.refusal or sample.finish_reason == "content_filter" then
                refused = refused + 1
            else
                samples[i] = options.merge({}, sample) -- an empty reply
                samples[i].text = ""
            end
        end
    end
    local first = samples[1] or {}
    local reply = {
        text = texts[1] or "", texts = texts, samples = samples,
        message = { role = "assistant", content = texts[1] or "", tool_calls = first.tool_calls,
            blocks = first.blocks },
        finish_reason = first.finish_reason, tool_calls = first.tool_calls,
        reasoning = first.reasoning, refusal = first.refusal, logprobs = first.logprobs,
        usage = draft.usage, model = draft.model, id = draft.id, latency_ms = draft.latency_ms,
        time_to_first_ms = draft.time_to_first_ms, attempts = draft.attempts,
        truncated = draft.truncated, dropped = plan.dropped, cost = draft.cost,
        scripted = draft.scripted, recorded = draft.recorded,
        cached = draft.origin == "cache" or nil, raw = draft.raw,
    }
    return reply, refused > 0 and refused == #samples
        and (first.refusal or "the provider's filter withheld the reply") or nil
end

local function unusable(target, draft, message)
    if target.provider.call then return ("%s: %s"):format(target.label, message) end
    return retry.explain(target, { message = message, status = 200 }, draft.attempts or 1)
end

---------------------------------------------------------------------------------------------------
-- JSON replies

local SHOWN_BYTES = 200 -- of a reply that does not fit

-- Sends the model its answer and what is wrong with it.
local function repair(model, plan, sample, problem)
    local messages = table.move(plan.messages, 1, #plan.messages, 1, {})
    messages[#messages + 1] = { role = "assistant", content = sample.text, blocks = sample.blocks }
    messages[#messages + 1] = { role = "user", content = "That does not fit: " .. problem
        .. ". Reply again with the corrected JSON and nothing else." }
    local quiet = options.merge({}, plan.all)
    quiet.on_delta = nil
    return ask(model, { all = quiet, kept = plan.kept, format = plan.format, first = plan.first,
        system = plan.system, messages = messages }, scheduler.current(), 1, 0)
end

-- The value of one sample; updates the draft if the sample was repaired. A repair that was not
-- answered returns its code, too.
local function json_of(model, plan, draft, i)
    local text = draft.samples[i].text
    local value, problem = schema.parse(text, plan.format)
    if value == nil and text and (plan.all.repair or plan.all.returns) then
        local repaired, message, code = repair(model, plan, draft.samples[i], problem)
        if not repaired then return nil, ("%s (asked again: %s)"):format(problem, message), code end
        draft.samples[i] = repaired.samples[1] or {}
        draft.usage = add_usage(draft.usage, repaired.usage)
        draft.cost = add_cost(draft.cost, repaired.cost)
        draft.attempts = read.sum(draft.attempts, repaired.attempts)
        value, problem = schema.parse(draft.samples[i].text, plan.format)
    end
    if value == nil and draft.samples[i].finish_reason == "length" then
        problem = problem .. " (the reply was truncated at max_output_tokens)"
    end
    return value, problem
end

-- The reply with the values of its samples; or nil, and what is wrong with the first that has none.
local function with_values(model, plan, draft)
    draft = options.merge({}, draft) -- repairs must not change the draft of a log or a cache
    draft.samples = options.merge({}, draft.samples)
    local values, first, problem, code, at = {}, nil, nil, nil, nil
    for i, sample in ipairs(draft.samples) do
        if not sample.tool_calls then
            local message, why
            values[i], message, why = json_of(model, plan, draft, i)
            if first == nil then first = values[i] end
            if values[i] == nil and not problem then problem, code, at = message, why, i end
        end
    end
    local reply, typed = assemble(plan, draft), plan.all.returns ~= nil
    local several = #draft.samples > 1
    if typed then
        reply.value, reply.values = first, several and values or nil
    else
        reply.json, reply.jsons = first, several and values or nil
    end
    if not problem or first ~= nil and not typed then return reply end
    local which = several and typed and ("of sample %d "):format(at) or ""
    return nil, unusable(model.target, draft, ("%s; the reply %swas %s"):format(problem, which,
        options.show(quote.line(reply.texts[at], SHOWN_BYTES)))), code or "BAD_REPLY", reply
end

---------------------------------------------------------------------------------------------------

--- See ponder.model.Model.chat.
---@param t ponder.task.Handle the current task
---@param level integer the error level: 1 is this function
function chat.run(model, t, opts, level)
    local plan, target = prepare(model, opts, level + 1), model.target
    local row, prefills = target.provider.row, target.provider.prefills
    if plan.all.prefill and not (target.provider.call or row and row.prefill
        or prefills and prefills(target)) then
        return nil, target.label .. " cannot continue a reply (prefill); nothing was sent",
            "UNSUPPORTED"
    end
    if plan.dropped then
        for _, option in ipairs(options.names(plan.dropped)) do
            local line = ("%s: %s is not sent: %s"):format(target.label, option,
                plan.dropped[option])
            if plan.all.strict_options then
                return nil, line .. "; nothing was sent (strict_options)", "BAD_REQUEST"
            end
            notice.once(line)
        end
    end
    local draft, message, code, partial = ask_all(model, plan, t)
    if not draft then return nil, message, code, partial and assemble(plan, partial) end
    local reply, refusal = assemble(plan, draft)
    if refusal then
        return nil, unusable(target, draft, refusal), "CONTENT_FILTER", reply
    elseif plan.format and not (draft.truncated and read.is_ended(draft)) then
        return with_values(model, plan, draft)
    end
    return reply
end

return chat
