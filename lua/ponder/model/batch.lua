--- Sends calls in batches: at half the price, and with replies within a day. A call parks in the
--- open batch of its model, endpoint and key; the task of one of them leads: it closes the batch,
--- sends it, polls and reads the results, while the others wait. If that task is cancelled, another
--- one leads.
---
---     open --> closed, in the log --> sent, its id in the log --> over
---       |             |                                            |
---       |             `--- the answer was lost: look for it        `--- each call takes its line
---       `--- every task waits, the provider's limit, or batch_wait_ms
---
--- What a provider's batches look like is in its field `batch`:
---
---@class ponder.model.BatchForm
---@field at string path of batches, below the base URL
---@field after string field of a query for the next page of their list
---@field paths table<string, true> of calls that a batch takes
---@field max_lines integer
---@field max_bytes integer
---@field line fun(id: string, path: string, body: string): string a call in the request
---@field upload? fun(ask: function, lines: string, key: string, target: ponder.model.Target):
---  string?, ponder.model.Failure? sends a file; returns its id
---@field create fun(lines: string, key: string, path: string): string the body that creates a
---batch; `lines`: the id of the file, if there is one
---@field status fun(batch: table): ponder.model.BatchStatus
---@field result fun(line: table): {status: integer?, body: table?, code: string?, message: string?}
---@field download? fun(target: ponder.model.Target, path: string): ponder.model.ServiceRequest
---
---@class ponder.model.BatchStatus
---@field id string?
---@field is_over boolean?
---@field results string[]? paths of JSON lines, once it is over
---@field is_cut boolean? it expired or was cancelled
---@field code string? it failed as a whole, and nothing was paid
---@field message string?
---@field key string|false|nil false: the service keeps none
---@field count integer?
---@field created number? seconds since 1970

local core = require "ponder.core.task"
local json = require "ponder.json"
local log = require "ponder.run.log.batches"
local random = require "ponder.core.random"
local retry = require "ponder.model.retry"
local scheduler = require "ponder.run.task.scheduler"
local service = require "ponder.model.service"
local waiters = require "ponder.run.task.waiters"

local batches = {}

local WAIT = "a batch" -- what tasks wait for
local BYTES_A_LINE = 200 -- besides the call
local SEND_MS, READ_MS = 600000, 3600000
local RESULTS = { max_body_bytes = 1 << 31, max_line_bytes = 64 << 20, max_event_bytes = 64 << 20 }
local CLOCK_S = 300 -- by which the service's clock may differ
local RISE = 10 -- the longest pause between polls, in first ones

--- Whether the calls of a target go in batches.
---@return string? path of its calls, below the base URL
function batches.path(target)
    local form = target.batch and target.provider.batch
    local path = form and target.url:match("^[^?]*"):sub(#target.base_url:match "^[^?]*" + 1)
    return form and form.paths[path] and path or nil
end

---------------------------------------------------------------------------------------------------
-- Whether every task waits

-- What ends without a reply, a budget or a limit.
local BY_ITSELF = { ["task.sleep"] = true, ["a process"] = true, ["Redis"] = true,
    ["Redis to come back"] = true, ["a worker"] = true, ["input"] = true, ["a signal"] = true,
    ["results"] = true, ["the next turn"] = true, ["the policy's calls"] = true,
    ["an answer of the parent"] = true, ["calls"] = true, ["the client of a stream"] = true }

local gathering = setmetatable({}, { __mode = "k" }) -- tasks that wait as gather does

-- Whether a task other than the current one is ready; else whether one waits for something else
-- than replies, budgets and limits; `but_batches`: for something else than batches and budgets.
local function look(but_batches)
    local is_blocked, current = false, scheduler.current()
    for _, group in ipairs(scheduler.groups) do
        is_blocked = is_blocked or group.plays
        for i = 1, group.live do
            local t = group.alive[i]
            local outside = t.context and t.context.outside
            if t ~= current and outside ~= true then -- else it draws on the screen
                local is_call = type(outside) == "table" and outside.kind == "call"
                if t.state ~= "parked" and not gathering[t] then return true, false end
                is_blocked = is_blocked or BY_ITSELF[t.waits] and (but_batches or not is_call)
                    or but_batches and t.waits == "an HTTP request"
            end
        end
    end
    return false, is_blocked
end

---------------------------------------------------------------------------------------------------
-- A batch

---@class ponder.model.Batch
---@field client ponder.model.Client
---@field target ponder.model.Target of its first call
---@field lines table[] {request =, n =}
---@field key string? once it is closed
---@field id string? of the service
---@field over "ended"|"absent"|ponder.model.Failure|nil
---@field results table<integer, string> lines by number, until a call takes them
local Batch = {}
Batch.__index = Batch

local function new(client, target, fields)
    local self = setmetatable(fields, Batch)
    self.client, self.target, self.form = client, target, target.provider.batch
    self.lines, self.results, self.bytes, self.weight = {}, {}, 0, 0
    self.waiting, self.news = waiters.new(WAIT), waiters.new(WAIT)
    client.batches[self] = true
    return self
end

local function pause(seconds)
    scheduler.park_until(scheduler.check(WAIT), WAIT, seconds and scheduler.clock() + seconds)
end

function Batch:ask(how)
    return service.ask(self.client, self.target, how)
end

function Batch:finish(how)
    self.over, self.client.batches[self] = how, nil
    self.waiting:wake()
end

-- Whether a request failed for a reason that stays.
local function is_refused(problem)
    local status = problem.status or 0
    return problem.code == "TOO_LARGE"
        or status >= 400 and status < 500 and status ~= 408 and status ~= 409 and status ~= 429
end

-- Waits until it is time to send the open batch.
function Batch:gather()
    local count, until_s
    while not self.key do
        local t = scheduler.current()
        gathering[t] = true
        pause() -- until the tasks that are ready now have run
        gathering[t] = nil
        if count ~= #self.lines then
            count, until_s = #self.lines, scheduler.clock() + self.target.batch.wait_ms / 1000
        end
        local is_busy, is_blocked = look(false)
        if not is_busy and (not is_blocked or scheduler.clock() >= until_s) then
            self:close()
        elseif not is_busy then
            self.news:wait(until_s)
        end
    end
end

---Closes an open batch, and has the log hold it.
function Batch:close()
    local calls = {}
    self.key, self.asked_at = ("%016x"):format(random.draw()), self.client.now_s()
    self.client.lots[self.lot] = nil
    for n, line in ipairs(self.lines) do
        line.n, calls[n] = n, line.request.row
    end
    local tape = calls[1] and scheduler.tape()
    self.count, self.tape = #self.lines, tape and tape.root
    if self.tape then log.begin(self.tape, self.key, self.target.label, calls) end
    self.news:wake()
end

-- Has the log hold what was written.
function Batch:set_id(id)
    self.id = id
    if self.tape then
        log.set_id(self.tape, self.key, id)
        pause()
    end
end

-- Reads the results; returns whether any is of this batch, and a failure.
function Batch:read(status)
    local is_own, wanted = false, self.wanted
    for _, path in ipairs(status.results) do
        local how = self.form.download and self.form.download(self.target, path) or { path = path }
        how.timeout_ms, how.limits = READ_MS, RESULTS
        function how.on_line(_, text)
            local key, n = tostring(json.get(text, "custom_id")):match "^ponder%-(%x+)%-(%d+)$"
            n = math.tointeger(tonumber(n))
            if key ~= self.key or not n then return end
            is_own = true
            if not wanted or wanted[n] then self.results[n] = self.results[n] or text end
        end
        local _, problem = self:ask(how)
        if problem then return is_own, problem end
    end
    return is_own
end

-- Polls a batch until it is over; returns its status, or nil and a failure.
function Batch:await(id, status)
    local every_s = self.target.batch.poll_ms / 1000
    local longest_s = RISE * every_s
    while true do
        local decoded, problem
        if not status then
            decoded, problem = self:ask { path = self.form.at .. "/" .. id, max_retries = 0 }
            status = decoded and self.form.status(decoded)
        end
        if status and status.is_over then return status end
        if problem and is_refused(problem) then return nil, problem end
        self:detach()
        pause(every_s)
        every_s, status = math.min(2 * every_s, longest_s), nil
    end
end

-- Ends the process with --detach, once the log has the ids of all batches and every task waits.
function Batch:detach()
    if not scheduler.context "detach" or not self.tape then return end
    for other in pairs(self.client.batches) do
        if not other.id and (other.key or other.lines[1]) then return end
    end
    local is_busy, is_blocked = look(true)
    if not is_busy and not is_blocked then
        core.stop "detach"
        scheduler.park(scheduler.check(WAIT), WAIT) -- until it is cancelled
    end
end

-- Looks for a batch whose creation was not answered. A service that keeps no key is asked for the
-- results of those that may be it. Returns whether it was found, and a failure.
function Batch:find()
    local form, maybe, after = self.form, {}, ""
    repeat
        local page, problem = self:ask { path = ("%s?limit=100%s"):format(form.at, after) }
        if not page then return false, problem end
        local oldest, last = math.huge, nil
        for _, one in ipairs(type(page.data) == "table" and page.data or {}) do
            local status = form.status(one)
            oldest, last = math.min(oldest, status.created or math.huge), status.id
            if status.key == self.key then
                maybe = { status }
                break
            elseif status.key == false and (status.created or math.huge) >= self.asked_at - CLOCK_S
                and (status.count or self.count) == self.count then
                table.insert(maybe, 1, status) -- the oldest first
            end
        end
        after = last and ("&%s=%s"):format(form.after, last)
    until maybe[1] and maybe[1].key or not after or page.has_more ~= true
        or oldest < self.asked_at - CLOCK_S
    for _, status in ipairs(maybe) do
        local over, problem = status, nil
        if not status.key then -- it says only in the end whose it is
            over, problem = self:await(status.id, status)
            local is_own = over and not over.code and self:read(over)
            over = is_own and over or nil
        end
        if over then
            self:set_id(status.id)
            self.status = over
            return true
        elseif problem then
            return false, problem
        end
    end
    return false
end

-- The lines as the service takes them.
function Batch:encode()
    local lines = {}
    for n, line in ipairs(self.lines) do
        lines[n] = self.form.line(("ponder-%s-%d"):format(self.key, n), self.path,
            line.request.encoded)
    end
    return table.concat(lines, self.form.upload and "\n" or ",")
end

-- Sends the batch, unless it is there already.
function Batch:create()
    local attempt, text = 0, nil
    if self.tape then pause() end -- until the log has it on disk
    while not self.id do
        local found, problem
        if self.is_sent then found, problem = self:find() end
        if found then return end
        if not problem and self.is_resumed then
            self:set_id(nil)
            return self:finish "absent"
        elseif not problem then
            text = text or self:encode()
            if self.form.upload and not self.file then
                self.file, problem = self.form.upload(function(how)
                    how.timeout_ms = SEND_MS
                    return self:ask(how)
                end, text .. "\n", self.key, self.target)
            end
        end
        if not problem then
            self.is_sent = true
            local decoded
            decoded, problem = self:ask { path = self.form.at, method = "POST", max_retries = 0,
                timeout_ms = SEND_MS, body = self.form.create(self.file or text, self.key,
                    self.path) }
            local status = decoded and self.form.status(decoded)
            if status and status.id then
                self.status = status
                return self:set_id(status.id)
            end
            problem = problem or retry.failure("BAD_REPLY", "the new batch has no id")
            self.is_sent = not is_refused(problem) and problem.status ~= 429
        end
        attempt = attempt + 1
        local wait_ms = retry.wait_ms(problem, attempt, retry.MAX_RETRIES, self.client.now_s(),
            self.client.random())
        if not wait_ms then
            if not self.is_sent then self:set_id(nil) end
            problem.message = "the batch was not sent: " .. problem.message
            return self:finish(problem)
        end
        pause(wait_ms / 1000)
    end
end

-- Leads the batch from wherever it is.
function Batch:work()
    if not self.key then self:gather() end
    if not self.id then self:create() end
    while not self.over do
        local status, problem = self:await(self.id, self.status)
        self.status = nil
        if status and status.code then
            self:set_id(nil)
            return self:finish(retry.failure(status.code, status.message))
        elseif status then
            self.is_cut = status.is_cut
            problem = select(2, self:read(status))
            if not problem then return self:finish "ended" end
            pause(self.target.batch.poll_ms / 1000)
        end
        if problem and is_refused(problem) then
            if problem.code == "NOT_FOUND" then self:set_id(nil) end -- it is gone
            problem.message = "the batch cannot be read: " .. problem.message
            return self:finish(problem)
        end
    end
end

-- Waits until the batch is over; leads it if nobody does.
function Batch:wait()
    while not self.over do
        if self.is_led then
            self.waiting:wait()
        else
            self.is_led = true
            local _ <close> = setmetatable({}, { __close = function()
                self.is_led = false
                self.waiting:wake()
            end })
            self:work()
        end
    end
end

---------------------------------------------------------------------------------------------------
-- Calls

-- Parks a call in the open batch of its model, endpoint and key.
local function park(client, request)
    local target, headers = request.target, request.target.headers
    local lot = table.concat({ target.url, target.model, headers.authorization
        or headers["x-api-key"] or headers["api-key"] or "" }, "\n")
    local batch, form = client.lots[lot], target.provider.batch
    local bytes = #request.encoded + BYTES_A_LINE
    local path, inputs = batches.path(target), request.body.input
    local weight = path == "/embeddings" and type(inputs) == "table" and #inputs or 1
    if batch and (batch.bytes + bytes > form.max_bytes
        or batch.weight + weight > form.max_lines) then
        batch:close()
        batch = nil
    end
    batch = batch or new(client, target, { lot = lot, path = path })
    client.lots[lot] = batch
    local line = { request = request }
    batch.lines[#batch.lines + 1] = line
    batch.bytes, batch.weight = batch.bytes + bytes, batch.weight + weight
    batch.news:wake()
    return batch, line
end

-- The batch and the line of a previous process, if one has the call.
local function find_in_log(client, request)
    local tape = request.row and scheduler.tape().root
    local known = tape and log.take(tape, request.row)
    if not known then return nil end
    local of, batch = known.batch, client.resumed[known.key]
    if not batch then
        batch = new(client, request.target, { key = of.key, id = of.id, count = of.count,
            asked_at = of.asked_at, wanted = of.wanted, is_resumed = true, is_sent = true,
            tape = tape })
        client.resumed[known.key] = batch
    end
    return batch, { request = request, n = known.n }, known.tries
end

-- Removes the line of a cancelled call from a batch that is still open.
local function leave(batch, line)
    for i, one in ipairs(batch.key and {} or batch.lines) do
        if one == line then
            return table.remove(batch.lines, i)
        end
    end
end

---Asks by a batch.
---@param tries integer batches that have had this call before, in this process
---@return {status: integer, body: table}? result
---@return ponder.model.Failure? problem
---@return integer tries batches that have had the call, this one included
---@return boolean is_line whether the problem is this call's own
function batches.ask(client, request, tries)
    while true do
        local batch, line, before
        if tries == 0 then batch, line, before = find_in_log(client, request) end
        if not batch then batch, line = park(client, request) end
        do
            local _ <close> = setmetatable({}, { __close = function() leave(batch, line) end })
            batch:wait()
        end
        tries = before or tries + 1
        if batch.over == "ended" then
            local text = batch.results[line.n]
            local decoded = text and json.decode(text)
            batch.results[line.n] = nil
            local result = type(decoded) == "table" and batch.form.result(decoded)
                or { message = "the batch has no result for this call",
                    code = batch.is_cut and "EXPIRED" or "SERVER" }
            if result.status then return result, nil, tries, true end
            return nil, retry.failure(result.code, result.message), tries, true
        elseif batch.over ~= "absent" then
            return nil, batch.over, tries, false
        end
        tries = tries - 1
    end
end

return batches
