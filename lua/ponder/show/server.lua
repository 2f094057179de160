--- The live page of run logs: a list of runs, each run as it proceeds, two runs side by side,
--- evaluations. For `ponder view`, and `GET /` of `ponder serve`.
---
---     local page = view.new { logs = logs.new { "run.db" } }
---     local server = serve.new { policies = {}, page = page }
---     print(page:url(assert(server:start())))
---
---     GET /                      the list; ?run=NAME#3: the page of a run; ?a=...&b=...: of two;
---                                ?eval=NAME#1: of an evaluation
---     GET /view/runs             the rows of the list, as JSON
---     GET /view/data?run=        what the page of a run shows, as JSON
---     GET /view/events           notices that a log has changed
---     GET /view/log?run=         everything that a log holds of a run, as JSON
---
--- Every request needs the token in the URL that `url` returns. The server checks the Host header
--- (ponder.serve.http.guard). Pages are self-contained and may connect only to their own server.

local changes = require "ponder.show.server.changes"
local compare = require "ponder.show.compare"
local evaluation = require "ponder.show.eval.page"
local export = require "ponder.show.export.json"
local guard = require "ponder.serve.http.guard"
local json = require "ponder.json"
local page_data = require "ponder.show.export.page_data"
local random = require "ponder.core.random"
local reader = require "ponder.run.log.reader"
local recorded = require "ponder.judge.eval.recorded"
local runs = require "ponder.show.server.runs"
local standalone = require "ponder.show.standalone"
local summary = require "ponder.judge.eval.summary"
local task = require "ponder.task"

local view = {}

local LIST_S = 1 -- shortest time between two notices that logs have changed
local HEADERS = { "Cache-Control", "no-store", "X-Content-Type-Options", "nosniff",
    "Referrer-Policy", "no-referrer", "Cross-Origin-Resource-Policy", "same-origin",
    "X-Frame-Options", "DENY", "Content-Type" }

---@class ponder.show.server.Page
---@field token string
---@field alone boolean? the server serves only the page
---@field streams integer open pages
local Page = {}
Page.__index = Page

---@param opts {logs: ponder.show.server.Logs, alone: boolean?} alone: the server serves nothing
---  else, so that every other path needs the token, too
---@return ponder.show.server.Page
function view.new(opts)
    return setmetatable({ logs = opts.logs, alone = opts.alone, runs = runs.new(opts.logs),
        streams = 0, draining = false,
        token = ("%016x%016x"):format(random.draw(), random.draw()) }, Page)
end

---The URL of the page, with its token.
---@param address string of the server
---@param run string? NAME#3: the page of that run
function Page:url(address, run)
    return ("http://%s/?token=%s%s"):format(address, self.token, run and "&run="
        .. run:gsub("[^%w%-._~/]", function(c) return ("%%%02X"):format(c:byte()) end) or "")
end

-------------------------------------------------------------------------------
-- Answers

local function respond(server, r, status, kind, body)
    local headers = table.move(HEADERS, 1, #HEADERS, 1, {})
    headers[#headers + 1] = kind
    local more = status == 405 and { "Allow", "GET, HEAD" }
        or status == 401 and { "WWW-Authenticate", "Bearer" } or {}
    table.move(more, 1, 2, #headers + 1, headers)
    server:reply(r, status, body, headers)
end

local MESSAGE = [[<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>ponder</title>%s
<meta name="viewport" content="width=device-width, initial-scale=1">
<p>%s</p></html>
]]
local RETRY = '<meta http-equiv="refresh" content="1">'

-- Answers with a page of one sentence; `again`: it reloads itself.
local function say(server, r, status, text, again)
    local safe = text:gsub("[<>&\"]", { ["<"] = "&lt;", [">"] = "&gt;", ["&"] = "&amp;",
        ['"'] = "&quot;" })
    respond(server, r, status, "text/html; charset=utf-8",
        MESSAGE:format(again and RETRY or "", safe))
end

-- The run that a request names; or nil, after answering that there is none.
function Page:find(server, r, name)
    local log, number = self.logs:find(name)
    if not log then
        say(server, r, 404, ("There is no run %s here."):format(name or "without a name"))
    elseif not log.stamp then
        log = say(server, r, 404, "The run has not called a model yet. This page waits for it.",
            true)
    end
    return log, number
end

-------------------------------------------------------------------------------
-- Routes

local ROUTES = {}

-- Opens the log of a run; or nil, after answering what is wrong.
function Page:open(server, r, name)
    local log, number = self:find(server, r, name)
    if not log then
        return nil
    end
    local opened, message = reader.open(("%s#%d"):format(log.path, number))
    return opened or say(server, r, 404, message)
end

function Page:data_of(server, r)
    local log <close> = self:open(server, r, r.query.run)
    if not log then
        return nil
    end
    local data = page_data.read(log, { pause = function() task.sleep(0) end })
    data.name, data.path = r.query.run, ("%s#%d"):format(log.path, log.number)
    return data
end

-- The trees of one of two compared runs.
local function trees_of(log, name)
    local data = page_data.read(log, { without_calls = true })
    data.name = name
    return data
end

ROUTES["/"] = function(self, server, r)
    local body
    if r.query.a then
        local a <close> = self:open(server, r, r.query.a)
        local b <close> = a and self:open(server, r, r.query.b)
        body = b and standalone.page("compare", { a = trees_of(a, r.query.a),
            b = trees_of(b, r.query.b), diff = compare.of(a, b, { pairs = true }) }, true)
    elseif r.query.eval then
        local log = self:find(server, r, r.query.eval)
        if log then
            local meta, records = recorded.read(log.path)
            body = meta and evaluation.write(summary.new(meta, records), log.path, log.name)
                or say(server, r, 404, records)
        end
    elseif r.query.run then
        local data = self:data_of(server, r)
        body = data and standalone.page("run", data, true)
    else
        body = standalone.page("runs", json.null, true)
    end
    if body then
        respond(server, r, 200, "text/html; charset=utf-8", body)
    end
end

ROUTES["/view/runs"] = function(self, server, r)
    respond(server, r, 200, "application/json", self.runs:json())
end

ROUTES["/view/data"] = function(self, server, r)
    local data = self:data_of(server, r)
    if data then
        respond(server, r, 200, "application/json", json.encode(data))
    end
end

ROUTES["/view/log"] = function(self, server, r)
    local opened <close> = self:open(server, r, r.query.run)
    if not opened then
        return
    end
    respond(server, r, 200, "application/json", export.text(opened))
end

ROUTES["/view/events"] = function(self, server, r)
    self.streams = self.streams + 1
    local _ <close> = setmetatable({}, { __close = function()
        self.streams = self.streams - 1
    end })
    self.changes = self.changes or changes.watch(self.logs.directories)
    local write, seen = server:open_stream(r), self.changes.count
    write ": waiting\n\n"
    while not self.draining do
        self.changes:wait(seen)
        if not self.draining then
            seen = self.changes.count
            write "data: changed\n\n"
            task.sleep(LIST_S)
        end
    end
    server.http:finish(r.id)
end

-------------------------------------------------------------------------------

---Answers a request, if it is for the page.
---@return boolean answered false: not for the page
function Page:handle(server, r)
    local route = ROUTES[r.path]
    local given = r.query.token or (r.headers.authorization or ""):match "^[Bb]earer%s+(%S+)"
    if not route and not self.alone then
        return false
    elseif not guard.is_equal(self.token, given or "") then
        say(server, r, 401, "This page needs the token of the URL that ponder printed when it "
            .. "started: http://.../?token=...")
    elseif not route then
        say(server, r, 404, "There is nothing at " .. r.path)
    elseif r.method ~= "GET" and r.method ~= "HEAD" then
        say(server, r, 405, "Use GET.")
    else
        route(self, server, r)
    end
    return true
end

---Ends all streams: the server is about to stop.
function Page:drain()
    self.draining = true
    if self.changes then
        self.changes:wake()
    end
end

---Stops watching.
function Page:close()
    if self.changes then
        self.changes:close()
    end
end
Page.__close = Page.close

return view
