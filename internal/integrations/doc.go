// Package integrations tests the files for CI systems: action.yml and the template for GitLab,
// with the real program, Git repositories, and a server in place of releases and REST APIs. It also
// checks the workflows of this repository.
package integrations
