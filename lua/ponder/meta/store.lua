---@meta

--- SQLite for logs and caches: a file with one writer and any number of readers.
---
---     local store = require "ponder.core.store"
---     local db <close> = assert(store.open("run.db", { mode = "create", schema = [[
---         CREATE TABLE calls (id INTEGER PRIMARY KEY, reply TEXT)]] }))
---     db:begin()
---     db:execute("INSERT INTO calls VALUES (?, ?)", 1, "a reply")
---     assert(db:commit())                    -- now it outlives this process
---     for id, reply in db:rows "SELECT id, reply FROM calls" do print(id, reply) end
---
--- Values: nil is NULL, booleans are 0 and 1, integers and floats are exact (NaN raises), a string
--- is TEXT if it is UTF-8 and BLOB if not, and either is read as a string. SQLite turns a value
--- into the type of its column where that loses nothing: 3.0 in an INTEGER column is read as 3.
---
--- Mistakes in a call raise, a statement with an error among them. What can fail when all is right
--- returns nil, a message that begins with the path, and a code:
---
---     EXISTS, NOT_FOUND                 the file, when it is opened
---     NOT_A_LOG                         another kind of file, by its application_id
---     NEWER                             of a greater version than opts.version
---     LOCKED                            another run is writing it
---     READ_ONLY                         no permission to write
---     DAMAGED                           cut off, or its content makes no sense
---     FULL, IO                          the disk
---     MEMORY
---     CONSTRAINT, TOO_LARGE, SQL        a statement that cannot be done with these values
---
--- After a failure the store can be used: a commit that failed has rolled back, so the transaction
--- can be done again. After a fork the store is of use to the parent only.
---@class ponder.core.store
---@field sqlite_version string "3.40.1"
local store = {}

---@class ponder.store.Options
---@field mode? "read"|"write"|"create" default "read"; "write" wants a file, "create" wants none
---@field sync? "normal"|"full" default "normal": what is committed outlives the process; "full":
---a loss of power too
---@field lock? boolean default true: a file has one writer at a time, among all processes
---@field make_directories? boolean "create": makes the directories above it, for this user only
---@field application_id? integer of the file: written by "create", wanted by the others
---@field version? integer likewise its user_version, which may be less
---@field kind? string what the file is called in messages; default "run log"
---@field staged? boolean "create": the file gets its name with `publish`, when more is in it
---@field check? boolean "read": look for damage at once, as "write" does. Files of more than 64 MiB
---are not looked through: damage in them is found as they are read, and is DAMAGED then
---@field schema? string "create": statements that are run before anyone sees the file

--- Opens a file. A file that is refused stays as it is. A writer closes it as a single file; while
--- it is open there are FILE-wal and FILE-shm too, and after a crash they stay (they belong to it).
--- A file is created as FILE-new, which a process that is killed meanwhile leaves behind.
---@param path string
---@param opts? ponder.store.Options unknown names and wrong types raise
---@return ponder.store.Store?
---@return string? message
---@return string? code
function store.open(path, opts) end

--- SHA-256.
---@param text string any bytes
---@return string 64 hex digits in lower case
function store.sha256(text) end

--- Space that an unprivileged process can still fill.
---@param path string a file or directory that is there
---@return integer? bytes of the file system that it is on
---@return string? message
---@return string? code
function store.free_bytes(path) end

--- Whether a file has a writer now, in this process or another. To find out, the caller is its
--- writer for a moment.
---@param path string
---@return boolean? in_use
---@return string? message
---@return string? code
function store.in_use(path) end

---@class ponder.store.Store can be used as a to-be-closed variable
local Store = {}

--- Runs one statement, which is kept prepared by its text.
---@param sql string
---@param ... nil|boolean|number|string for its parameters, all of them
---@return integer? changes rows that were inserted, updated and deleted
---@return string? message
---@return string? code
function Store:execute(sql, ...) end

--- Runs any number of statements.
---@param sql string
---@return boolean? ok
---@return string? message
---@return string? code
function Store:script(sql) end

--- Begins a transaction; a writer has the file for itself from here on. Raises within a
--- transaction.
---@return boolean? ok
---@return string? message
---@return string? code
function Store:begin() end

--- Ends it, and may move the WAL into the file if it has grown past 4,000 pages. If this fails the
--- transaction is rolled back.
---@return boolean? ok
---@return string? message
---@return string? code
function Store:commit() end

--- Undoes it; without a transaction does nothing.
---@return boolean? ok
---@return string? message
---@return string? code
function Store:rollback() end

--- Iterates over rows. A failure raises its message. A loop ends at a row whose first value is
--- NULL, so begin with a column that is not.
---
---     for id, status in db:rows("SELECT id, status FROM calls WHERE id > ?", 10) do ... end
---@param sql string
---@param ... nil|boolean|number|string
---@return fun(): ... values of a row; nothing after the last
function Store:rows(sql, ...) end

--- Iterates over rows as tables by column name, without those that are NULL.
---@param sql string
---@param ... nil|boolean|number|string
---@return fun(): table<string, integer|number|string>?
function Store:columns(sql, ...) end

--- The first row. A failure raises its message.
---@param sql string
---@param ... nil|boolean|number|string
---@return ... values; nothing if there is no row
function Store:row(sql, ...) end

--- Holds a statement back that is to be on disk soon, unless something better is written in its
--- place until then: a thread runs it when 0.25 s to 0.5 s have passed, whatever the script does,
--- and commits it, with what was written in the transaction that is open. One that is not taken
--- back by then is run when the store is closed.
---@param sql string one that changes something
---@param ... nil|boolean|number|string for its parameters, 64 at most
---@return integer? ticket
---@return string? message
---@return string? code
function Store:hold_back(sql, ...) end

--- Takes a statement back.
---@param ticket integer
---@return boolean was_held false: it has been run
function Store:take_back(ticket) end

--- What is written from here on belongs together: that thread does not commit before the next
--- `hold_back`, `commit` or `rollback`.
function Store:hold_commit() end

--- Gives a file that was created `staged` its name. If this fails the store is closed, and its file
--- removed. Raises for any other store.
---@return boolean? ok
---@return string? message
---@return string? code EXISTS: somebody has made such a file meanwhile
function Store:publish() end

--- Moves what is committed from the WAL into the file, without waiting for readers; takes some ms.
--- For moments when there is nothing else to do.
---@return integer? left pages that stay in the WAL since a reader needs them
---@return string? message
---@return string? code
function Store:checkpoint() end

--- From now on no statement writes one of these texts, such as keys: `mark` stands in its place.
---@param texts string[] a longer one before those that it holds
---@param mark string
function Store:hide(texts, mark) end

--- Closes the store, rolling back a transaction that is open. Twice is harmless; rows that are
--- still being read raise from here on. If it fails (a full disk), it is closed nevertheless and
--- what is committed is in FILE-wal.
---@return boolean? ok
---@return string? message
---@return string? code
function Store:close() end

return store
