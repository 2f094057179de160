--- A service with batches in OpenAI's, Anthropic's and Gemini's forms, as a program of its own, so
--- that it outlives clients that are killed: see batch_mock.lua, which starts it.
---
--- What happens to a line is in its prompt:
---
---     "... 500 once"      fails with that status, the first time it comes (429, 529 likewise)
---     "... 500 always"    each time          "... 400 always"
---     "... expire once"   has not been begun when the batch expires; "cancel", "miss", "garbage"
---     "... twice"         its result comes twice
---
--- What happens to the service is in `set`, and `events` are its counters: a client is killed when
--- one reaches a number (the client's pid is in its key).

local host = require "ponder.core.host"
local http = require "ponder.core.http"
local json = require "ponder.json"
local sources = require "ponder.run.task.sources"
local task = require "ponder.task"

local files, list, by_id = {}, {}, {}
local seen, paid, events = {}, {}, {}
local set -- polls: before a batch ends; lose: creations whose answer is lost; and more
local function reset() set = { polls = 1, lose = 0, refuse = json.null, fail = json.null } end
reset()

local server, address = assert(http.listen { address = "127.0.0.1:0", max_body_bytes = 256 << 20,
    max_total_body_bytes = 512 << 20 })

-- Counts an event; true: the client was killed at it.
local function happens(event, request)
    events[event] = (events[event] or 0) + 1
    local key = request.headers.authorization or request.headers["x-api-key"]
        or request.headers["x-goog-api-key"] or ""
    local pid = key:match "pid%-(%d+)"
    if pid and set.kill and set.kill[event] == events[event] then
        set.kill = nil
        os.execute(("kill -%s %s"):format(set.signal or "KILL", pid))
        return not set.signal
    end
end

local function prompt_of(body)
    local last = body.messages and body.messages[#body.messages].content or body.input
    last = type(last) == "table" and (last[1].text or last[1].content or last[1]) or last
    return type(last) == "table" and last[1].text or last
end

-- The outcome of a line: a status, or a word.
local function outcome(prompt)
    seen[prompt] = (seen[prompt] or 0) + 1
    local what, when = prompt:match "(%w+) (%w+)$"
    if when == "always" or when == "once" and seen[prompt] == 1 then
        return tonumber(what) or what
    end
    paid[prompt] = (paid[prompt] or 0) + 1
    return 200
end

local USAGE = { prompt_tokens = 100, completion_tokens = 10, total_tokens = 110 }

local function openai_reply(body, prompt)
    if body.input and not body.messages then
        local data = {}
        for i in ipairs(body.input) do data[i] = { index = i - 1, embedding = { i, 0.5 } } end
        return { data = data, usage = { prompt_tokens = 100, total_tokens = 100 } }
    end
    local choices = {}
    for i = 1, body.n or 1 do
        local text = prompt:find "Grade" and tostring(#prompt % 10)
            or body.n and ("sample %d of %d bytes"):format(i, #prompt * i) or "re: " .. prompt
        choices[i] = { index = i - 1, finish_reason = "stop",
            message = { role = "assistant", content = text } }
    end
    return { id = "c", model = body.model, choices = choices, usage = USAGE }
end

local function openai_line(one, what, prompt)
    local id = one.custom_id
    if what == "expire" or what == "cancel" then
        local code = what == "expire" and "batch_expired" or "batch_cancelled"
        return { custom_id = id, response = json.null, error = { code = code, message = what } },
            true
    elseif what == "garbage" then
        return { custom_id = id,
            response = { status_code = 200, body = { nothing = 1 } } }
    elseif what ~= 200 then
        return { custom_id = id, response = { status_code = what, body = { error = {
            message = "it is " .. what, type = "some_error" } } }, error = json.null }, true
    end
    return { id = "r", custom_id = id, error = json.null, response = { status_code = 200,
        body = openai_reply(one.body, prompt) } }
end

local KIND = { [400] = "invalid_request_error", [429] = "rate_limit_error", [500] = "api_error",
    [529] = "overloaded_error" }

local function anthropic_line(one, what, prompt)
    local result
    if what == "expire" or what == "cancel" then
        result = { type = what == "expire" and "expired" or "canceled" }
    elseif what == "garbage" then
        result = { type = "succeeded", message = { nothing = 1 } }
    elseif what ~= 200 then
        result = { type = "errored", error = { type = "error", error = { type = KIND[what],
            message = "it is " .. what } } }
    else
        result = { type = "succeeded", message = { id = "m", type = "message", role = "assistant",
            model = one.params.model, stop_reason = "end_turn",
            content = { { type = "text", text = "re: " .. prompt } },
            usage = { input_tokens = 100, output_tokens = 10 } } }
    end
    return { custom_id = one.custom_id, result = result }
end

-- Ends a batch: each line has its outcome; results are in the reverse order.
local function finish(batch)
    local good, bad = {}, {}
    for _, one in ipairs(batch.lines) do
        local prompt = prompt_of(one.body or one.params)
        local what = outcome(prompt)
        local line, is_bad = (batch.is_anthropic and anthropic_line or openai_line)(one, what,
            prompt)
        if what ~= "miss" then
            local into = is_bad and bad or good
            local text = json.encode(line)
            table.insert(into, 1, text)
            if prompt:find "twice$" then table.insert(into, 1, text) end
        end
    end
    table.insert(good, 1, '{"custom_id":"somebody-else-1","response":null,"result":{"type":"?"}}')
    files["out-" .. batch.id] = table.concat(good, "\n") .. "\n"
    files["err-" .. batch.id] = bad[1] and table.concat(bad, "\n") .. "\n" or nil
    batch.over = true
end

local function look(batch)
    batch.polls = batch.polls + 1
    if batch.polls >= set.polls and not batch.over and not batch.failed then finish(batch) end
    return batch
end

local function time_of(seconds) return os.date("!%Y-%m-%dT%H:%M:%S.123456Z", seconds) end

local function show(batch)
    if batch.is_anthropic then
        local n = #batch.lines
        return { id = batch.id, type = "message_batch", created_at = time_of(batch.at),
            processing_status = batch.over and "ended" or "in_progress",
            results_url = batch.over and "http://elsewhere.invalid/results" or json.null,
            request_counts = { processing = batch.over and 0 or n,
                succeeded = batch.over and n or 0, errored = 0, canceled = 0, expired = 0 } }
    end
    return { id = batch.id, object = "batch", created_at = batch.at, metadata = batch.metadata,
        status = batch.failed and "failed" or batch.over and (set.ends or "completed")
            or "in_progress",
        errors = batch.failed and { object = "list", data = { { code = batch.failed, line = 2,
            message = "it is wrong" } } } or json.null,
        output_file_id = files["out-" .. batch.id] and "out-" .. batch.id or json.null,
        error_file_id = files["err-" .. batch.id] and "err-" .. batch.id or json.null }
end

local function create(request, batch)
    if happens("create", request) then return nil end
    if set.refuse ~= json.null then
        local status = set.refuse
        set.refuse = set.keep_refusing and status or json.null
        return status, { error = { message = "not now", type = KIND[status] or "x" } }
    end
    batch.id, batch.polls, batch.at = ("batch_%d"):format(#list + 1), 0, os.time()
    batch.failed = set.fail ~= json.null and set.fail or nil
    table.insert(list, 1, batch)
    by_id[batch.id] = batch
    if happens("created", request) then return nil end
    if set.lose > 0 then
        set.lose = set.lose - 1
        return "lost"
    end
    return 200, show(batch)
end

local function page(request)
    if happens("list", request) then return nil end
    local data, at = {}, 1
    local after = request.query.after or request.query.after_id
    for i, batch in ipairs(list) do at = batch.id == after and i + 1 or at end
    for i = at, math.min(at + (set.page or 100) - 1, #list) do data[#data + 1] = show(list[i]) end
    return 200, { data = json.array(data), has_more = at + #data <= #list }
end

local function results(request, name)
    if happens("results", request) then return nil end
    return files[name] and 200 or 404, files[name] or { error = { message = "no such file" } }
end

local function lines_of(text)
    local lines = {}
    for line in text:gmatch "[^\r\n]+" do lines[#lines + 1] = json.decode(line) end
    return lines
end

-- Status (nil: no answer; "lost": the connection breaks), body.
local function answer(request)
    local method, path, body = request.method, request.path, request.body
    if path == "/_set" then
        for name, value in pairs(json.decode(body)) do set[name] = value end
        return 200, set
    elseif path == "/_reset" then
        reset()
        files, list, by_id, seen, paid, events = {}, {}, {}, {}, {}, {}
        return 200, {}
    elseif path == "/_state" then
        local all = {}
        for i, batch in ipairs(list) do all[i] = { id = batch.id, lines = #batch.lines } end
        return 200, { paid = json.object(paid), events = json.object(events),
            batches = json.array(all), seen = json.object(seen) }
    end
    local is_anthropic = path:find "/v1/messages" ~= nil
    if method == "POST" and path:find "/chat/completions$" then
        local sent = json.decode(body)
        happens("call", request)
        return 200, openai_reply(sent, prompt_of(sent))
    elseif method == "POST" and path:find "/upload/" then -- Gemini: where to send, then the file
        if request.headers["x-goog-upload-command"] == "start" then
            if happens("upload", request) then return nil end
            return 200, {}, { "x-goog-upload-url", "http://" .. request.headers.host
                .. "/upload/there" }
        end
        local name = ("files/in-%d"):format(events.upload)
        files[name] = body
        return 200, { file = { name = name } }
    elseif method == "POST" and path:find "/files$" then
        if happens("upload", request) then return nil end
        local mark = request.headers["content-type"]:match "boundary=(.*)"
        local text = body:match 'filename="[^"]*"\r\nContent%-Type: [^\r]*\r\n\r\n(.-)\r\n%-%-'
        assert(body:find('name="purpose"\r\n\r\nbatch\r\n--' .. mark, 1, true))
        local id = ("file-%d"):format(events.upload)
        files[id] = text
        return 200, { id = id, object = "file" }
    elseif method == "POST" and path:find "/batches$" then
        local sent = json.decode(body)
        return create(request, { is_anthropic = is_anthropic, metadata = sent.metadata,
            lines = sent.requests or lines_of(files[sent.input_file_id]) })
    elseif path:find "/batches$" then
        return page(request)
    elseif path:find "/batches/[%w_]+/results$" then
        return results(request, "out-" .. path:match "/batches/([%w_]+)")
    elseif path:find "/files/[%w_-]+/content$" then
        return results(request, path:match "/files/([%w_-]+)")
    elseif path:find "/download/" then
        return results(request, path:match "/files/([%w_-]+):download")
    end
    local batch = by_id[path:match "/batches/([%w_]+)$"]
    if not batch then return 404, { error = { message = "nothing at " .. path } } end
    if happens("poll", request) then return nil end
    if set.poll_status then
        local status = set.poll_status
        set.poll_status = nil
        return status, { error = { message = "poll" } }
    end
    return 200, show(look(batch))
end

local function take()
    local request = server:take()
    while request do
        local status, body, headers = answer(request)
        if math.type(status) == "integer" then
            server:respond(request.id, status, headers or {}, type(body) == "string" and body
                or json.encode(body))
        else
            server:abort(request.id)
        end
        request = server:take()
    end
end

sources.add { port = server:port(), pending = function() return true end, take = take }
print((host.process()), address)
io.stdout:flush()
task.park()
