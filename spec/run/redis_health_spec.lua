-- `ponder doctor redis://...`: its findings about good and bad servers.

local json = require "ponder.json"
local redis_server = require "redis_server"
local shell = require "shell"

-- The status, and the findings by subject.
local function doctor(url)
    local result = shell.ponder({ "doctor", "--json", url })
    local by_about = {}
    for _, found in ipairs(json.decode(result.out)) do
        by_about[found.about] = found
    end
    return result.status, by_about
end

describe("ponder doctor redis://...", function()
    it("finds no problems with a persistent server without eviction", function()
        local server <close> = redis_server.start { "--appendonly", "yes" }
        local status, found = doctor(server.url)
        assert.equal(0, status)
        for _, about in ipairs { "redis", "server", "latency", "memory", "persistence" } do
            assert.equal("ok", found[about].state, about)
        end
        assert.matches("version 7", found.server.found)
        assert.matches("appendfsync everysec", found.persistence.found)
    end)

    it("finds eviction and missing persistence, and says what to do", function()
        local server <close> = redis_server.start { "--maxmemory", "100mb", "--maxmemory-policy",
            "allkeys-lru" }
        local status, found = doctor(server.url)
        assert.equal(1, status)
        assert.same({ "problem", "problem" }, { found.memory.state, found.persistence.state })
        assert.matches("100.00M, maxmemory%-policy allkeys%-lru", found.memory.found)
        assert.matches("CONFIG SET maxmemory%-policy noeviction", found.memory.advice)
        assert.matches("CONFIG SET appendonly yes", found.persistence.advice)
    end)

    it("reports a replica, a wrong password and no server, and shows no password", function()
        local server <close> = redis_server.start({ "--requirepass", "right1", "--replicaof",
            "127.0.0.1 1" }, { cli = "-a right1 --no-auth-warning" })
        local _, found = doctor((server.url:gsub("//", "//:right1@", 1)))
        assert.equal("problem", found.server.state)
        assert.matches("replica of 127.0.0.1", found.server.found)
        local status, refused = doctor((server.url:gsub("//", "//:wrong7@", 1)))
        assert.equal(1, status)
        assert.matches("password is wrong", refused.redis.found)
        assert.is_nil(json.encode(refused):find("wrong7", 1, true))
        local _, nobody = doctor("redis://127.0.0.1:" .. redis_server.free_port())
        assert.equal("start it: redis-server --appendonly yes", nobody.redis.advice)
    end)

    it("accepts only URLs", function()
        local result = shell.ponder { "doctor", "x" }
        assert.same({ 2, "ponder doctor: expected no argument, or redis://..." },
            { result.status, result.err:match "^[^\n]*" })
    end)
end)
