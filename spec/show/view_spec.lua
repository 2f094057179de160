-- ponder.show.server as its clients see it: access, and the stream of a run in progress.
-- The server and its clients are tasks of one process; spec/show/view_page_spec.lua has the
-- browser.

local json = require "ponder.json"
local logs = require "ponder.show.server.logs"
local sample_log = require "sample_log"
local serve = require "ponder.serve"
local shell = require "shell"
local store = require "ponder.core.store"
local task = require "ponder.task"
local transport = require "ponder.model.transport"
local view = require "ponder.show.server"

local dir

-- Calls f(get, get_json, page) while the page of these logs is served. get(path, query, opts) gives
-- status, body and headers; without opts.token it carries the page's.
local function with_page(names, f, opts)
    task.run(function()
        local page <close> = view.new { logs = assert(logs.new(names)), alone = true }
        local server = serve.new { policies = opts and opts.policies or {}, page = page,
            listen = "127.0.0.1:0", drain_ms = 0, log = function() end }
        page.alone = not (opts and opts.policies)
        local address = assert(server:start())
        local net = transport.new()
        local function get(path, query, how)
            how = how or {}
            local parts = { how.token == nil and "token=" .. page.token
                or how.token and "token=" .. how.token or nil }
            for name, value in pairs(query or {}) do
                parts[#parts + 1] = name .. "=" .. value:gsub("[#/&]", function(c)
                    return ("%%%02X"):format(c:byte())
                end)
            end
            local result = net:send({ url = ("http://%s%s?%s"):format(address, path,
                table.concat(parts, "&")), method = how.method or "GET", headers = how.headers
                or {}, proxy = "", stream = how.on_event and "sse" or nil, timeout_ms = 30000 },
                how.on_event)
            return result.status, result.body, result.headers or {}
        end
        local function get_json(...)
            local status, body = get(...)
            assert.equal(200, status)
            return assert(json.decode(body))
        end
        f(get, get_json, page)
        net:close()
        server:drain()
        server:wait()
    end)
end

local function sample(name, change)
    return sample_log.write(("%s/%s"):format(dir.path, name), change)
end

-- The rows of a list of runs as tables by field.
local function rows_of(list)
    local rows = {}
    for _, log in ipairs(list.logs) do
        for _, values in ipairs(log.runs or {}) do
            local row = { log = log.log, unended = log.unended }
            for i, name in ipairs(list.fields) do
                row[name] = values[i] ~= json.null and values[i] or nil
            end
            rows[#rows + 1] = row
        end
    end
    return rows
end

setup(function() dir = shell.directory() end)
teardown(function() dir:__close() end)

describe("the page's server", function()
    it("requires the token for every request", function()
        local path = sample "token.db"
        with_page({ path }, function(get, _, page)
            for _, place in ipairs { "/", "/view/runs", "/view/data", "/view/events", "/view/log",
                "/v1/models", "/metrics", "/elsewhere" } do
                for _, token in ipairs { false, "", "x", page.token:sub(1, -2),
                    page.token .. "0" } do
                    local status, body = get(place, { run = path .. "#1" }, { token = token })
                    assert.equal(401, status, place)
                    assert.is_nil(body:find("policy.lua", 1, true))
                end
            end
            assert.equal(200, (get "/"))
            assert.equal(200, (get("/view/runs", nil, { token = false,
                headers = { authorization = "Bearer " .. page.token } })))
        end)
    end)

    it("compares the token as keys are compared", function()
        local guard = require "ponder.serve.http.guard"
        local compared = stub(guard, "is_equal", false)
        with_page({ sample "compare.db" }, function(get, _, page)
            assert.equal(401, (get "/"))
            assert.stub(compared).was.called_with(page.token, page.token)
        end)
        compared:revert()
    end)

    it("answers only to this machine's names, and only to this machine", function()
        with_page({ sample "host.db" }, function(get)
            local status, body = get("/", nil, { headers = { host = "evil.example" } })
            assert.equal(403, status)
            assert.is_nil(body:find("policy.lua", 1, true))
            assert.equal(403, (get("/", nil, { headers = { origin = "http://evil.example" } })))
            assert.equal(200, (get("/", nil, { headers = { host = "localhost:1" } })))
        end)
        local r = shell.ponder { "view", "--no-open", "--listen", "0.0.0.0:0", "x" }
        assert.equal(2, r.status)
    end)

    it("serves no other file, and no page to a frame", function()
        local path, other = sample "one.db", sample "other.db"
        with_page({ path }, function(get)
            for _, name in ipairs { other .. "#1", path .. "#2", path, "", "../../etc/passwd#1" } do
                local status, body = get("/", { run = name })
                assert.equal(404, status, name)
                assert.matches(name == path .. "#2" and "holds no run 2"
                    or ("There is no run %s here"):format(name), body, 1, true)
                assert.is_nil(body:find("4 4 6 8", 1, true))
                assert.equal(404, (get("/view/log", { run = name })))
            end
            local _, _, headers = get "/"
            assert.equal("DENY", headers["x-frame-options"])
            assert.equal("no-store", headers["cache-control"])
            local status, _, allowed = get("/", nil, { method = "POST" })
            assert.same({ 405, "GET, HEAD" }, { status, allowed.allow })
            assert.equal(404, (get "/elsewhere"))
        end)
    end)

    it("keeps hostile text as text in every answer", function()
        local path = sample("hostile.db", function(db)
            assert(db:execute("UPDATE runs SET name = ?1, answer = ?2, error = ?1",
                sample_log.HOSTILE, json.encode(sample_log.HOSTILE)))
        end)
        with_page({ path }, function(get, get_json)
            local _, body = get("/", { run = path .. "#1" })
            local data = body:match '<script id="data" type="application/json">(.-)</script>'
            assert.is_nil(data:find("<", 1, true))
            assert.is_truthy(json.decode(data))
            local row = rows_of(get_json "/view/runs")[1]
            assert.same({ sample_log.HOSTILE, sample_log.HOSTILE }, { row.name, row.error })
            local _, missing = get("/", { run = "<b>x</b>" })
            assert.is_nil(missing:find("<b>", 1, true))
        end)
    end)

    it("lists runs with their usage", function()
        local path = sample("list.db", function(db)
            assert(db:execute [[INSERT INTO runs (id, uid, parent, name, labels, command, arguments,
                seed, options, versions, started_at, ended_at, status, error) VALUES (2, 'b', 1,
                'inner', '{"item":"x"}', 'run', '[]', 1, '{}', '{}', 1760000005.0, 1760000006.0,
                'failed', 'it broke')]])
            assert(db:execute [[INSERT INTO calls (run, id, session, identity, occurrence, provider,
                model, sample, samples, request, asked_at, status, total_tokens, cost) VALUES
                (2, 1, 1, 'i', 1, 'p', 'm', 1, 1, '{}', 1760000005.0, 'ok', 7, 0.5)]])
        end)
        with_page({ path, dir.path .. "/not-yet.db" }, function(_, get_json)
            local rows = rows_of(get_json "/view/runs")
            assert.equal(2, #rows)
            assert.same({ id = 2, parent = 1, log = path, status = "failed", command = "run",
                arguments = "[]", name = "inner", labels = '{"item":"x"}', calls = 1, errors = 0,
                started_at = 1760000005, ended_at = 1760000006, tokens = 7, cost = 0.5,
                unpriced = 0, error = "it broke", unended = "killed" }, rows[2])
            assert.same({ "completed", 40, 1, 4740, 1, "(6 - 4) * (8 + 4) = 24" },
                { rows[1].status, rows[1].calls, rows[1].errors, rows[1].tokens,
                    rows[1].unpriced, rows[1].answer })
        end)
    end)

    it("says what runs were asked", function()
        local path = sample("asked.db", function(db)
            assert(db:execute "UPDATE runs SET script = NULL, command = 'tot'")
            for id, input in pairs { [2] = '{"prompt":"hi <b>","model":"m"}', [3] = "from a pipe",
                [4] = '{"prompt":"","arguments":{"a":1}}' } do
                assert(db:execute([[INSERT INTO runs (id, uid, parent, name, input, command,
                    arguments, seed, options, versions, started_at) VALUES (?, 'b', 1, 'inner', ?,
                    'serve', '[]', 1, '{}', '{}', 1760000005.0)]], id, input))
            end
        end)
        with_page({ path }, function(_, get_json)
            local asked = {}
            for i, row in ipairs(rows_of(get_json "/view/runs")) do
                asked[i] = row.question or false
            end
            assert.same({ "4 4 6 8", "hi <b>", false, '{"a":1}' }, asked)
            local run = get_json("/view/data", { run = path .. "#2" }).run
            assert.same({ "inner", "hi <b>" }, { run.name, run.question })
        end)
        local r = shell.ponder { "show", path .. "#2" }
        assert.matches("\nrequest   hi <b>\n", r.out)
    end)

    it("lists all stored runs if no log is named, and says which are damaged", function()
        local place <close> = shell.directory { ["ponder/x"] = "" }
        sample_log.write(place.path .. "/ponder/good.db")
        local good = place:read "ponder/good.db"
        place:write("ponder/broken.db", good:sub(1, 8192) .. ("\1"):rep(#good - 8192))
        place:write("ponder/not-a-log.db", "something else")
        local r <close> = shell.start({ "view", "--no-open" }, { XDG_STATE_HOME = place.path })
        local url = r.line
        local pipe <close> = assert(io.popen(("curl -sg '%s'"):format(
            url:gsub("/%?", "/view/runs?"))))
        local list = assert(json.decode(pipe:read "a"))
        local found = {}
        for _, log in ipairs(list.logs) do
            found[log.log] = log.damage or #log.runs
        end
        assert.equal(1, found.good)
        assert.matches("broken%.db: ", found.broken)
        assert.equal(0, r:stop())
    end)

    it("rereads a log that has changed", function()
        local path = sample "again.db"
        with_page({ path }, function(get, get_json)
            get "/view/runs"
            local db = assert(store.open(path, { mode = "write" }))
            assert(db:execute "UPDATE runs SET status = 'failed'")
            db:close()
            assert.equal("failed", rows_of(get_json "/view/runs")[1].status)
        end)
    end)

    it("returns all of a log as JSON", function()
        local path = sample "json.db"
        with_page({ path }, function(_, get_json)
            local whole = get_json("/view/log", { run = path .. "#1" })
            assert.equal("ponder-run-1", whole.format)
            assert.equal(40, #whole.calls)
        end)
    end)

    it("is part of ponder serve, whose other paths are unchanged", function()
        local path = sample "served.db"
        with_page({ path }, function(get)
            local status, _, headers = get("/", nil, { token = false })
            assert.same({ 401, "Bearer" }, { status, headers["www-authenticate"] })
            assert.equal(200, (get("/", { run = path .. "#1" })))
            assert.equal(200, (get("/v1/models", nil, { token = false })))
            assert.equal(404, (get("/elsewhere", nil, { token = false })))
        end, { policies = { echo = function() return "x" end } })
    end)
end)

describe("the stream of a run in progress", function()
    local function running(name)
        return sample(name, function(db)
            assert(db:execute "UPDATE runs SET status = NULL, ended_at = NULL")
            assert(db:execute "UPDATE searches SET ended_at = NULL, status = NULL WHERE id = 2")
        end)
    end

    local INSERT = [[INSERT INTO calls (id, session, identity, occurrence, provider, model, sample,
        samples, request, asked_at, status, reply) VALUES (?, 1, 'new', 1, 'openai', 'm', 1, 1,
        '{"messages":[{"role":"user","content":"And now?"}]}', 1760000020.0, ?, ?)]]

    it("is followed by notices, after which its data has what is new", function()
        local path = running "live.db"
        local writer = assert(store.open(path, { mode = "write" }))
        with_page({ path }, function(get, get_json, page)
            local before = get_json("/view/data", { run = path .. "#1" })
            assert.same({ "running", 40, 3 },
                { before.run.status, #before.calls, #before.searches })
            local stream
            stream = task.spawn(get, "/view/events", nil, { on_event = function(_, text)
                assert.equal("changed", text)
                stream:cancel()
            end })
            assert(writer:begin())
            assert(writer:execute(INSERT, 41, "ok", '{"samples":[{"text":"Now."}]}'))
            assert(writer:execute [[INSERT INTO nodes (search, id, parent, depth, score, text)
                VALUES (2, 'n7', 'n6', 3, 0.5, 'one more')]])
            assert(writer:execute "UPDATE runs SET status = 'completed', ended_at = 1760000030.0")
            assert(writer:commit())
            stream:join()
            local data = get_json("/view/data", { run = path .. "#1" })
            local call, node = data.calls[41], data.searches[2].nodes[7]
            assert.same({ "completed", "And now?", "Now.", "n7", "n6" }, { data.run.status,
                data.texts[call.prompt[1].text + 1], data.texts[call.reply[1].text + 1], node.id,
                node.up })
            assert.equal(0, page.streams)
        end)
        writer:close()
    end)

    it("does not make the log's writer wait", function()
        local path = running "busy.db"
        local writer = assert(store.open(path, { mode = "write" }))
        with_page({ path }, function(_, get_json)
            local reads, is_over = 0, false
            local reading = task.spawn(function()
                while not is_over do
                    get_json("/view/data", { run = path .. "#1" })
                    reads = reads + 1
                end
            end)
            for i = 1, 300 do -- a commit each, while the page reads
                assert(writer:begin())
                assert(writer:execute(INSERT, 100 + i, "ok", '{"samples":[]}'))
                assert(writer:commit())
                task.sleep(0.001)
            end
            is_over = true
            reading:join()
            assert.is_true(reads > 1)
            -- No page holds an old snapshot of the log: all of the WAL can be checkpointed.
            local pages, moved
            repeat
                task.sleep(0.01)
                _, pages, moved = writer:row "PRAGMA wal_checkpoint"
            until pages == moved
        end)
        writer:close()
    end)
end)

describe("ponder view", function()
    it("prints the URL of the page, and of a run if one is named", function()
        local path = sample "cli.db"
        for _, arguments in ipairs { { path }, { path .. "#1" } } do
            local r <close> = shell.start { "view", "--no-open", table.unpack(arguments) }
            assert.matches("^http://127%.0%.0%.1:%d+/%?token=%x+&run=.*cli%.db%%231$", r.line)
            assert.equal(32, #r.line:match "token=(%x+)")
            assert.equal(0, r:stop "INT")
        end
        local two <close> = shell.start { "view", "--no-open", path, sample "cli2.db" }
        assert.matches("token=%x+$", two.line)
    end)

    it("waits for a log that does not exist yet", function()
        local path = dir.path .. "/later.db"
        local r <close> = shell.start { "view", "--no-open", path }
        local function fetch()
            local pipe <close> = assert(io.popen(
                ("curl -sgw '%%{http_code}' '%s'"):format(r.line)))
            return pipe:read "a"
        end
        assert.matches('http%-equiv="refresh".*404$', fetch())
        sample_log.write(path)
        assert.matches("policy%.lua.*200$", fetch())
    end)

    it("opens a browser without the token among its arguments", function()
        local path = sample "open.db"
        local place <close> = shell.directory { browser = "#!/bin/sh\n"
            .. 'printf "%s\\n" "$@" >"$0.args"; stat -c %a "$1" >"$0.mode"; cat "$1" >"$0.tmp"\n'
            .. 'mv "$0.tmp" "$0.page"\n' }
        os.execute(("chmod +x '%s/browser'"):format(place.path))
        local r <close> = shell.start({ "view", path }, { BROWSER = place.path .. "/browser" })
        repeat
            local file = io.open(place.path .. "/browser.page")
            os.execute "sleep 0.02"
        until file and file:close()
        assert.is_nil(place:read("browser.args"):find("token", 1, true))
        assert.equal("600\n", place:read "browser.mode")
        assert.is_truthy(place:read("browser.page"):find(r.line, 1, true))
        r:stop()
        assert.is_nil(io.open(place:read("browser.args"):match "%S+"))
    end)

    it("reports errors in its arguments", function()
        assert.equal(2, shell.ponder({ "view", "--no-open", "no-such-run" }).status)
        assert.equal(2, shell.ponder({ "view", "--nonsense" }).status)
        for address, problem in pairs {
            foo = "expected HOST:PORT of this machine, such as 127.0.0.1:8080 (got \"foo\")",
            ["unix:/x"] = "expected HOST:PORT of this machine",
            ["0.0.0.0:0"] = "other machines could reach 0.0.0.0:0" } do
            local r = shell.ponder({ "view", "--no-open", "--listen", address }, { limit_s = 10 })
            assert.equal(2, r.status)
            assert.truthy(r.err:find("^ponder view: %-%-listen: ") and r.err:find(problem, 1, true),
                r.err)
        end
        local taken <close> = shell.start { "view", "--no-open" }
        local address = taken.line:match "//([%d.:]+)"
        local second = shell.ponder({ "view", "--no-open", "--listen", address }, { limit_s = 10 })
        assert.same({ 1, ("ponder view: cannot listen at %s: Address already in use; --listen "
            .. "names another address\n"):format(address) }, { second.status, second.err })
        local problems = { ["/etc/passwd"] = "not a run log", ["/"] = "is a directory" }
        for path, problem in pairs(problems) do
            local r = shell.ponder({ "view", "--no-open", path }, { limit_s = 10 })
            assert.same({ 2, ("ponder view: %s: %s\n"):format(path, problem) }, { r.status, r.err })
        end
    end)

    it("is opened by --view of the commands that log a run, and ends with its page", function()
        local model = "script:" .. shell.root .. "/scripts/models/arithmetic.lua"
        local place <close> = shell.directory { ["ask.lua"] = ([[
            print(require("ponder.model").open("%s"):chat { messages = {
                { role = "user", content = "Use 4 4 6 8 to make 24" } } }.text ~= nil)]])
            :format(model) }
        local log = place.path .. "/run.db"
        for _, arguments in ipairs { { "run", "--view", "--log", log, place.path .. "/ask.lua" },
            { "tot", "--view", "--log", log, "--model", model, "Use 4 4 6 8 to make 24" } } do
            os.remove(log)
            local r <close> = shell.start(arguments, { BROWSER = "true" })
            local url = r.line:match "^ponder: the run's page is at (http.*run%.db%%231)$"
            assert.is_truthy(url, r.line)
            local function fetch(what)
                local pipe <close> = assert(io.popen(("curl -sgm 10 '%s'"):format(
                    what)))
                return pipe:read "a"
            end
            local data
            repeat
                data = json.decode(fetch(url:gsub("/%?", "/view/data?")))
            until data and data.run.status ~= "running"
            assert.equal("completed", data.run.status)
            assert.equal(arguments[1], data.run.command)
            repeat
                local line = r.pipe:read "l"
            until line == "ponder: waiting until the page is closed; Ctrl-C ends it"
            -- A page that is open and then closed: the command ends with it.
            os.execute(("curl -sgNm 1 '%s' >/dev/null"):format(
                url:gsub("/%?", "/view/events?")))
            assert.is_nil(r.pipe:read "l")
            local _, _, status = r.pipe:close()
            r.pipe = nil
            assert.equal(0, status)
        end
        local none = shell.ponder({ "run", "--view", "-e", "print(1)" }, { env = {
            BROWSER = "true" } })
        assert.same({ 0, "1\n" }, { none.status, none.out })
        assert.matches("the run called no model", none.err)
        local r = shell.ponder { "tot", "--view", "--no-log", "--model", model, "x" }
        assert.same({ 2, "ponder tot: --view needs the run's log, which --no-log turns off\n" },
            { r.status, r.err })
    end)

    it("shows evaluations, with links to their runs", function()
        local place <close> = shell.directory { ["e.lua"] = [[
            return { name = "shown", data = { { id = "x", question = "1" }, { id = "y<b>",
                question = "2" } }, policies = { one = function() return "1" end },
                target = "question", score = "exact" }]] }
        local done = place:ponder { "eval", "--log", "e.db", "e.lua" }
        assert.equal(0, done.status, done.err)
        local path = place.path .. "/e.db"
        with_page({ path }, function(get)
            local status, body = get("/", { eval = path .. "#1" })
            assert.equal(200, status)
            local data = json.decode(body:match '<script id="data" type="application/json">(.-)</')
            assert.same({ "shown", 2, path }, { data.meta.name, #data.records, data.served })
            assert.matches("connect%-src 'self'", body)
            assert.equal(404, (get("/", { eval = path .. "#1x" })))
        end)
        with_page({ sample "noeval.db" }, function(get)
            local status, body = get("/", { eval = dir.path .. "/noeval.db#1" })
            assert.equal(404, status)
            assert.matches("has no evaluation", body)
        end)
    end)

    it("is served by ponder serve at /, for its log", function()
        local place <close> = shell.directory { ["p.lua"] = [[return function(request)
            return request.prompt:upper() end]] }
        local log = place.path .. "/served.db"
        local r <close> = shell.start { "serve", "--listen", "127.0.0.1:0", "--log", log,
            place.path .. "/p.lua" }
        local api = r.line:match "at (http://.*)/v1$"
        local url = r.pipe:read("l"):match "runs at (http.*)$"
        local function curl(arguments)
            local pipe <close> = assert(io.popen("curl -sgm 10 " .. arguments))
            return pipe:read "a"
        end
        assert.matches("UPPER", curl(([[-H 'content-type: application/json' -d '{"model":"p",
            "messages":[{"role":"user","content":"upper"}]}' %s/v1/chat/completions]]):format(api)))
        assert.equal("401", curl(("-o /dev/null -w '%%{http_code}' %s/"):format(api)))
        assert.matches("<title>Runs", curl("'" .. url .. "'"))
        local list = rows_of(json.decode(curl("'" .. url:gsub("/%?", "/view/runs?") .. "'")))
        assert.same({ "serve", "p" }, { list[1].command, list[2].name })
        -- An open page does not delay its end.
        os.execute(("curl -sgNm 20 '%s' >/dev/null & sleep 0.2"):format(
            url:gsub("/%?", "/view/events?")))
        assert.equal(0, r:stop())
    end)
end)
