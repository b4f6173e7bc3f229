// Package quota limits what the objects of a namespace use together, as resource quotas say.
//
// [Admission] charges a request to the quotas of its namespace before the object is stored: it
// writes the new usage into their status, on the condition that they have not changed. So no two
// requests get the last of a quota, on however many servers. [Controller] counts the stored
// objects again when some are deleted, or no longer use what they did.
//
// A request that is charged may still fail, and its object is stored a little later. [Charges]
// knows the requests of this server in between, so that a count that does not find their objects
// yet does not make room for others, and one that will never find them does.
package quota
